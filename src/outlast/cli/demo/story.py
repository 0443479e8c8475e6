"""How `outlast demo` tells its story: on a terminal, in a pipe, and as a picture of a terminal."""

import io
import re
import sys
from typing import TYPE_CHECKING

from outlast.cli.output.text import safe
from outlast.cli.output.views import put, terminal

if TYPE_CHECKING:
    from rich.console import Console

COLUMNS = 90
_FONTS = 'ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace'
_FONT_FACE = re.compile(r"\s*@font-face \{.*?\n    \}", re.DOTALL)


class Teller:
    """Says one line after the other, wherever it is wanted."""

    def __init__(self, *, is_quiet: bool, is_recorded: bool) -> None:
        self._is_quiet = is_quiet
        self._consoles: list[Console] = []
        if sys.stdout.isatty() and not is_quiet:
            self._consoles.append(terminal())
        self._recording = _recording() if is_recorded else None
        if self._recording is not None:
            self._consoles.append(self._recording)
            self._recording.print("$ outlast demo", style="bold")

    def line(self, text: str = "", style: str = "") -> None:
        """Say one line."""
        text = safe(text)
        if not self._is_quiet and not sys.stdout.isatty():
            put(text)
            sys.stdout.flush()
        for console in self._consoles:
            console.print(text, style=style, soft_wrap=True)

    def picture(self) -> str:
        """What was said, as an SVG that needs nothing from any network."""
        assert self._recording is not None
        drawn = self._recording.export_svg(title="outlast demo", unique_id="outlast")
        return _FONT_FACE.sub("", drawn).replace("Fira Code, monospace", _FONTS)


def _recording() -> "Console":
    from rich.console import Console

    return Console(
        record=True,
        file=io.StringIO(),
        width=COLUMNS,
        force_terminal=True,
        color_system="truecolor",
        markup=False,
        highlight=False,
        emoji=False,
    )
