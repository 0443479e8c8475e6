"""What a disk was told while the queue worked, and what callers were told, in one order.

The recorder writes it, the disk model replays it. A line of the history is an event like any
other, so for each cut it is known what had been acknowledged by then.
"""

import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from outlast_lab.history import ANSWERED, ASKS, Line, LineFile, read_lines

CREATE, WRITE, TRUNCATE, SYNC, DELETE, MAKE_FOLDER, FOLDER, TOLD = (
    "create", "write", "truncate", "sync", "delete", "make folder", "sync folder", "told",
)  # fmt: skip
SYNCS = (SYNC, FOLDER)

_LENGTH = struct.Struct("<I")
_ENCODER = msgspec.msgpack.Encoder()


class Event(msgspec.Struct, array_like=True, frozen=True):
    """One thing that reached the file system, or one line of the history.

    Of folders `at` says which: 0 is the one that holds the database, 1 the one that holds that.
    """

    kind: str
    file: str = ""
    at: int = 0
    data: bytes = b""
    line: Line | None = None

    def in_words(self) -> str:
        """The event for people."""
        if self.kind == TOLD:
            return "  " + _line_in_words(self.line or [])
        if self.kind == WRITE:
            return f"write {self.file} at {self.at}, {len(self.data)} bytes"
        if self.kind == TRUNCATE:
            return f"truncate {self.file} to {self.at}"
        if self.kind in (MAKE_FOLDER, FOLDER):
            return f"{self.kind} {'../' * self.at or './'}"
        return f"{self.kind} {self.file}".rstrip()


def _line_in_words(line: Line) -> str:
    if line and line[0] == ASKS:
        return f"{line[2]} asks {line[3]} {line[4]}"
    if line and line[0] == ANSWERED:
        return f"{line[2]} is answered {line[3]} {line[4]}"
    return str(line)


_DECODER = msgspec.msgpack.Decoder(Event)


class EventLog:
    """The writing end: each event goes out by one write, so that it survives `kill -9`."""

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o600)

    def add(self, event: Event) -> None:
        """Append one event."""
        body = _ENCODER.encode(event)
        os.write(self._descriptor, _LENGTH.pack(len(body)) + body)

    def tell(self, line: Line) -> None:
        """Append a line of the history."""
        self.add(Event(TOLD, line=line))


def _events_in(raw: bytes) -> Iterator[Event]:
    at = 0
    while at + _LENGTH.size <= len(raw):
        (length,) = _LENGTH.unpack_from(raw, at)
        at += _LENGTH.size
        if at + length > len(raw):
            return
        yield _DECODER.decode(raw[at : at + length])
        at += length


class Recording:
    """The files as they lay on the disk before, and everything that happened since."""

    def __init__(
        self, database: str, base: dict[str, bytes], before: list[Line], events: list[Event]
    ) -> None:
        self.database = database
        self.base = base
        self.before = before
        """The history of those who made the store; it is over, and all of it is safe."""
        self.events = events

    @classmethod
    def load(cls, folder: Path) -> "Recording":
        """Read what `keep_base` and a recorder left in a folder."""
        database, *names = msgspec.json.decode((folder / "base.json").read_bytes(), type=list[str])
        base = {name: (folder / "base" / name).read_bytes() for name in names}
        before = read_lines(folder / "before.jsonl")
        return cls(database, base, before, list(_events_in((folder / "events").read_bytes())))

    def told_until(self, cut: int) -> list[Line]:
        """The lines of the history before a cut."""
        told = [one.line for one in self.events[:cut] if one.line is not None]
        return [*self.before, *told]

    def certain_since(self) -> list[int]:
        """For each cut: the one before it at which all that was asked had been answered.

        The store's whole content is certain there. While calls of other threads are under way it
        is not: what is seen of them is theirs to lose.
        """
        under_way: set[str] = set()
        found = [0]
        for number, event in enumerate(self.events, 1):
            line = event.line or [""]
            if line[0] == ASKS:
                under_way.add(line[1])
            elif line[0] == ANSWERED:
                under_way.discard(line[1])
            is_certain = line[0] == ANSWERED and not under_way
            found.append(number if is_certain else found[-1])
        return found

    def calls(self) -> list[tuple[str, int, int]]:
        """The verb of each call that was answered, and the events of its asking and its answer."""
        asked: dict[str, tuple[str, int]] = {}
        found = []
        for number, event in enumerate(self.events):
            line = event.line or [""]
            if line[0] == ASKS:
                asked[line[1]] = (line[3], number)
            elif line[0] == ANSWERED:
                found.append((*asked.pop(line[1]), number))
        return found

    def sync_boundaries(self) -> list[int]:
        """The cuts right before and right after each sync."""
        syncs = [n for n, event in enumerate(self.events) if event.kind in SYNCS]
        return sorted({cut for n in syncs for cut in (n, n + 1)})

    def without_syncs(self) -> "Recording":
        """The same on a disk that says it has synced and has not."""
        events = [one if one.kind not in SYNCS else Event(TOLD) for one in self.events]
        return Recording(self.database, self.base, self.before, events)

    def in_words(self, cut: int | None = None) -> str:
        """All events for people, one a line; where power failed is marked."""
        lines = []
        for number, event in enumerate(self.events):
            if number == cut:
                lines.append("----- power fails here -----")
            lines.append(f"{number:5} {event.in_words()}")
        return "\n".join(lines) + "\n"


def keep_base(database: Path, folder: Path, before: Iterable[Line]) -> None:
    """Copy what a recording begins with; nobody may have the store open."""
    (folder / "base").mkdir(parents=True)
    names = []
    for file in sorted(database.parent.glob(f"{database.name}*")):
        if file.is_file() and not file.name.endswith("-shm"):
            (folder / "base" / file.name).write_bytes(file.read_bytes())
            names.append(file.name)
    (folder / "base.json").write_bytes(msgspec.json.encode([database.name, *names]))
    lines = LineFile(folder / "before.jsonl")
    for line in before:
        lines.write(line)
    lines.close()
