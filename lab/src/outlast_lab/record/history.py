"""What was asked of the queue and what it answered: the one side of every judgement.

Each process writes down a line when it asks and a line when it is answered, on the clock that all
processes of the host share. Between asking and being answered a thing happened at some moment
nobody knows; before and after, it is certain. A call without an answer was under way when its
process ended: it may have happened or not.
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from outlast.host import boot

Line = list[Any]
Write = Callable[[Line], None]

Outcome = Literal["done", "refused", "unknown", "raised"]
"""Acknowledged; not done, on Outlast's word; it could not say; or not one of its errors at all."""

ASKS, ANSWERED, KILLED, LEFT = "asks", "answered", "killed", "left"


@dataclass(slots=True)
class Call:
    """One call of one process, and what came of it.

    Times are seconds of the host's monotonic clock; `…_clock_ms` is what the queue's own clock
    showed, by which leases are measured: a manual one stands still while real time passes.
    """

    worker: str
    verb: str
    arguments: dict[str, Any]
    asked_at: float
    asked_clock_ms: int
    answered_at: float | None = None
    answered_clock_ms: int | None = None
    outcome: Outcome | None = None
    value: Any = None

    @property
    def is_done(self) -> bool:
        """Whether it was acknowledged."""
        return self.outcome == "done"

    @property
    def may_have_happened(self) -> bool:
        """Whether it was acknowledged, or nobody knows."""
        return self.outcome not in ("refused", "raised")


@dataclass(slots=True)
class History:
    """All calls in the order they were asked, and how the processes ended."""

    calls: list[Call] = field(default_factory=list)
    killed_at: dict[str, float] = field(default_factory=dict)
    left_at: dict[str, float] = field(default_factory=dict)

    def of(self, *verbs: str) -> Iterator[Call]:
        """The calls of certain verbs."""
        return (call for call in self.calls if call.verb in verbs)

    def under_way(self) -> list[Call]:
        """The calls that nobody was answered."""
        return [call for call in self.calls if call.outcome is None]


def history_of(lines: Iterable[Line]) -> History:
    """The history that lines tell, of one process or of many."""
    history = History()
    open_calls: dict[tuple[str, str], Call] = {}
    for word, *values in lines:
        if word == ASKS:
            number, worker, verb, arguments, at, clock_ms = values
            call = open_calls[worker, number] = Call(worker, verb, arguments, at, clock_ms)
            history.calls.append(call)
        elif word == ANSWERED:
            number, worker, *answer = values
            call = open_calls.pop((worker, number))
            call.outcome, call.value, call.answered_at, call.answered_clock_ms = answer
        elif word == KILLED:
            history.killed_at[values[0]] = values[1]
        elif word == LEFT:
            history.left_at[values[0]] = values[1]
        else:
            raise ValueError(f"a history has no lines that begin with {word!r}")
    history.calls.sort(key=lambda call: call.asked_at)
    return history


def host_seconds() -> float:
    """The host's monotonic clock, the same in every time namespace."""
    return time.monotonic() - boot.monotonic_offset_ms() / 1000


class LineFile:
    """A process's own record: a line goes out by one write, so what was told survives `kill -9`."""

    def __init__(self, path: Path | str) -> None:
        self._descriptor = os.open(
            path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
        )

    def write(self, line: Line) -> None:
        """Append one line."""
        os.write(self._descriptor, (json.dumps(line) + "\n").encode())

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)


def read_lines(path: Path) -> list[Line]:
    """All lines of a record; one that a kill cut off was never finished and says nothing."""
    whole = path.read_bytes().splitlines(keepends=True)
    return [json.loads(line) for line in whole if line.endswith(b"\n")]


def read_history(folder: Path) -> History:
    """The history that all records (*.jsonl) in a folder tell together."""
    return history_of(line for path in sorted(folder.glob("*.jsonl")) for line in read_lines(path))
