"""Watching a worker of this process: a bar on a terminal, a line now and then in a pipe."""

import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from outlast.cli.output.text import count
from outlast.cli.output.views import put, terminal
from outlast.errors import OutlastError

LINE_SECONDS = 5.0
DRAW_SECONDS = 0.25
_PATIENCE = 20


@dataclass(frozen=True, slots=True)
class Figures:
    """What a worker has done, and what is left in the queues it serves."""

    completed: int
    failed: int
    running: int
    waiting: int


Look = Callable[[], Figures]


def watching(look: Look, *, is_quiet: bool) -> AbstractContextManager[object]:
    """Shows progress while the block runs, in the way that fits where the output goes."""
    if is_quiet:
        return nullcontext()
    drawing = _Bar() if sys.stdout.isatty() else _Lines()
    return _Watch(look, drawing)


class _Drawing(Protocol):
    interval_seconds: float

    def __enter__(self) -> object: ...
    def __exit__(self, *details: object) -> object: ...

    def draw(self, figures: Figures) -> None:
        """Show the present figures."""
        ...


class _Watch:
    """A thread that looks and draws; nothing it meets can disturb the work."""

    def __init__(self, look: Look, drawing: _Drawing) -> None:
        self._look = look
        self._drawing = drawing
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="outlast-watch", daemon=True)

    def __enter__(self) -> Self:
        self._drawing.__enter__()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        self._drawing.__exit__(kind, error, trace)

    def _watch(self) -> None:
        pause_seconds = 0.0
        while not self._over.wait(pause_seconds):
            began = time.monotonic()
            # A busy store or a closed pipe: the work goes on, and says so when it ends.
            with suppress(OutlastError, OSError):
                self._drawing.draw(self._look())
            # Looking at a large store takes time that the work could use.
            looked_seconds = time.monotonic() - began
            pause_seconds = max(self._drawing.interval_seconds, _PATIENCE * looked_seconds)


class _Lines:
    """A line every few seconds, when there is something new to say."""

    interval_seconds = LINE_SECONDS

    def __init__(self) -> None:
        self._last = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        pass

    def draw(self, figures: Figures) -> None:
        """One line, unless it would repeat the last one."""
        line = in_words(figures)
        if line != self._last:
            put(line)
            sys.stdout.flush()
        self._last = line


class _Bar:
    """A bar that fills as the queue empties."""

    interval_seconds = DRAW_SECONDS

    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

        self._progress = Progress(
            SpinnerColumn(),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f}%", markup=False),
            TextColumn("{task.description}", markup=False),
            console=terminal(),
            transient=True,
        )
        self._bar = self._progress.add_task("starting", total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *details: object) -> None:
        self._progress.stop()

    def draw(self, figures: Figures) -> None:
        """What is done, against all there is to do now."""
        total = figures.completed + figures.running + figures.waiting
        self._progress.update(
            self._bar,
            completed=figures.completed,
            total=total or None,
            description=in_words(figures),
        )


def in_words(figures: Figures) -> str:
    """The figures as one line."""
    failed = f", {count(figures.failed, 'failed attempt')}" if figures.failed else ""
    return (
        f"{figures.completed:,} completed{failed}, {figures.running:,} running,"
        f" {figures.waiting:,} waiting"
    )
