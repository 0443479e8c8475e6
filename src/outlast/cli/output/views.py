"""What a command shows: neutral blocks, drawn as a table on a terminal, plainly in a pipe, or JSON.

Every text passes through `safe` here, on its way out, so that no command can forget it.
"""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from outlast.cli.command import Common
from outlast.cli.exits import Exit
from outlast.cli.output.text import safe, safe_json, width_of

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_PIECE = 16_384
_GAP = 2
_NARROWEST = 8
_COLOURS = {
    "running": "cyan",
    "completed": "green",
    "failed": "red",
    "cancelled": "yellow",
    "alive": "green",
    "stale": "yellow",
    "dead": "red",
    "ok": "green",
    "degraded": "yellow",
}


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under headings; cells may hold anything, they are escaped when drawn."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: frozenset[str] = frozenset()
    elastic: str | None = None
    """The column that gives way on a narrow terminal."""
    expendable: Sequence[str] = ()
    """The columns that are left out when even that is not enough, the first of them first."""
    title: str | None = None
    empty: str = "There is nothing to show."


@dataclass(frozen=True, slots=True)
class Lines:
    """Sentences and indented lines, one for each text."""

    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class View:
    """One answer: as data for machines, as blocks for people."""

    data: Any
    blocks: Sequence[Table | Lines] = field(default=())
    is_last: bool = False
    """Whether watching it further would show nothing new."""


def show(common: Common, view: View) -> None:
    """Print an answer the way this call wants it."""
    if common.as_json:
        put(safe_json(view.data, indent=2))
    elif sys.stdout.isatty():
        _draw(view)
    else:
        put(plain(view))


def show_or_watch(common: Common, watch: float | None, look: Callable[[], View]) -> None:
    """Print an answer once, or again and again until Ctrl-C."""
    if watch is None:
        show(common, look())
        return
    try:
        _watch(common, watch, look)
    except KeyboardInterrupt:
        # How it is meant to end, wherever it is called from.
        raise click.exceptions.Exit(Exit.FINE) from None


def _watch(common: Common, watch: float, look: Callable[[], View]) -> None:
    on_terminal = sys.stdout.isatty() and not common.as_json
    while True:
        view = look()
        if common.as_json:
            put(safe_json(view.data))
        elif on_terminal:
            _draw(view, header=f"every {watch:g} s, Ctrl-C ends")
        else:
            put(plain(view) + "\n")
        sys.stdout.flush()
        if view.is_last:
            return
        time.sleep(watch)


def put(text: str) -> None:
    """Print a text and a line end, piece by piece, so that a closed pipe is noticed in between."""
    text += "\n"
    for start in range(0, len(text), _PIECE):
        sys.stdout.write(text[start : start + _PIECE])


def plain(view: View) -> str:
    """The blocks as aligned text without colours."""
    return "\n\n".join(_plain_block(block) for block in view.blocks)


def _plain_block(block: Table | Lines) -> str:
    if isinstance(block, Lines):
        return "\n".join(safe(line) for line in block.lines)
    parts = [] if block.title is None else [safe(block.title)]
    if not block.rows:
        return "\n".join([*parts, safe(block.empty)])
    cells = [[heading.upper() for heading in block.columns]]
    cells += [[safe(cell) for cell in row] for row in block.rows]
    widths = [max(width_of(row[place]) for row in cells) for place in range(len(block.columns))]
    return "\n".join([*parts, *(_plain_row(row, widths, block) for row in cells)])


def _plain_row(row: Sequence[str], widths: Sequence[int], block: Table) -> str:
    padded = []
    for cell, width, column in zip(row, widths, block.columns, strict=True):
        space = " " * (width - width_of(cell))
        padded.append(space + cell if column in block.numbers else cell + space)
    return "  ".join(padded).rstrip()


def terminal() -> "Console":
    """The terminal, with nothing in our texts taken for markup."""
    from rich.console import Console

    return Console(file=sys.stdout, markup=False, highlight=False, emoji=False)


def _draw(view: View, header: str | None = None) -> None:
    console = terminal()
    if header is not None:
        console.clear()
        console.print(header, style="dim")
    for number, block in enumerate(view.blocks):
        if number:
            console.print()
        console.print(_drawn(block, console.width))


def _drawn(block: Table | Lines, width: int) -> "RenderableType":
    from rich.console import Group
    from rich.text import Text

    if isinstance(block, Lines):
        return Text("\n".join(safe(line) for line in block.lines))
    parts: list[RenderableType] = []
    if block.title is not None:
        parts.append(Text(safe(block.title), style="bold"))
    if not block.rows:
        return Group(*parts, Text(safe(block.empty)))
    dropped = _dropped(block, width)
    parts.append(_drawn_table(block, width, dropped))
    if dropped:
        parts.append(Text(f"(too narrow for {', '.join(dropped)})", style="dim"))
    return Group(*parts)


def _drawn_table(block: Table, width: int, dropped: Sequence[str]) -> "RenderableType":
    from rich import box
    from rich import table as rich_table
    from rich.text import Text

    drawn = rich_table.Table(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0)
    )
    places = [place for place, name in enumerate(block.columns) if name not in dropped]
    for column in (block.columns[place] for place in places):
        is_elastic = column == block.elastic
        drawn.add_column(
            Text(column),
            justify="right" if column in block.numbers else "left",
            no_wrap=is_elastic,
            overflow="ellipsis" if is_elastic else "fold",
            max_width=_left_for_elastic(block, width, dropped) if is_elastic else None,
        )
    for row in block.rows:
        cells = (row[place] for place in places)
        drawn.add_row(*(Text(safe(cell), style=_style_of(cell)) for cell in cells))
    return drawn


def _dropped(block: Table, width: int) -> list[str]:
    """The columns there is no room for, so that the others are shown whole and can be copied."""
    dropped: list[str] = []
    for column in block.expendable:
        if _left_for_elastic(block, width, dropped) >= _needed_by_elastic(block, dropped):
            break
        dropped.append(column)
    return dropped


def _needed_by_elastic(block: Table, dropped: Sequence[str]) -> int:
    return 0 if block.elastic is None or block.elastic in dropped else _NARROWEST


def _left_for_elastic(block: Table, width: int, dropped: Sequence[str]) -> int:
    """What the other columns leave over."""
    cells = [block.columns, *block.rows]
    others = [
        place
        for place, column in enumerate(block.columns)
        if column != block.elastic and column not in dropped
    ]
    taken = sum(max(width_of(safe(row[place])) for row in cells) for place in others)
    return width - taken - _GAP * len(others)


def _style_of(cell: str) -> str:
    return _COLOURS.get(cell.partition(" ")[0], "")
