"""Does the recorder miss anything? The kernel is asked: strace sees the same life from outside.

What strace saw of the store's files must be, call by call and in the same order, what the
recorder wrote down. So it is known and not assumed when SQLite syncs a folder.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from outlast_lab.power.driving import DATABASE, PLACE
from outlast_lab.power.recording import (
    CREATE,
    DELETE,
    FOLDER,
    MAKE_FOLDER,
    SYNC,
    TOLD,
    TRUNCATE,
    WRITE,
    Event,
    Recording,
)

_CALLS = "openat,mkdir,pwrite64,ftruncate,fsync,fdatasync,unlink"
_PATIENCE_SECONDS = 120
_UNFINISHED = re.compile(r"^(\d+) +(.*) <unfinished \.\.\.>$")
_RESUMED = re.compile(r"^(\d+) +<\.\.\. \w+ resumed>(.*)$")
_WHOLE = re.compile(r"^\d+ +(\w+)\((.*)\) += (-?\d+)")
_DESCRIPTOR = re.compile(r"^\d+<([^>]*)>")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(rb"\\([0-7]{1,3}|.)")
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"v": b"\v", b"f": b"\f"}


class Calibration(NamedTuple):
    """What strace saw otherwise, how much was compared, and why it could not be asked."""

    differences: list[str]
    compared: int
    note: str = ""


def calibrate(folder: Path, life: str) -> Calibration:
    """Play a life under strace and compare."""
    if shutil.which("strace") is None:
        return Calibration([], 0, "strace is not installed, so the recorder was not calibrated")
    folder.mkdir(parents=True)
    place, trace = folder / "life", folder / "trace"
    # Only calls that are asked for stop the program: with all of them it takes four times as long.
    options = ["-f", "--seccomp-bpf", "-y", "-s", "0", "-e", f"trace={_CALLS}", "-o", str(trace)]
    done = subprocess.run(
        ["strace", *options, *program(life, place)],
        capture_output=True,
        text=True,
        timeout=_PATIENCE_SECONDS,
        check=False,
    )
    if not (place / "events").exists():
        words = done.stderr.strip().splitlines()[-1:]
        return Calibration([], 0, f"strace may not be used here ({words}): not calibrated")
    recording = Recording.load(place)
    database = place.joinpath(*PLACE, DATABASE)
    lines = trace.read_text(encoding="utf-8", errors="replace").splitlines()
    lines = since_the_life_began(lines, place / "events")
    if not lines:
        return Calibration([], 0, "strace did not show the life: the recorder was not calibrated")
    return compare(recording, lines, database)


def program(life: str, place: Path) -> list[str]:
    """The command that plays a life and leaves its recording in a new folder."""
    return [sys.executable, "-m", "outlast_lab.power.calibration", life, str(place)]


def compare(recording: Recording, lines: list[str], database: Path) -> Calibration:
    """Hold a recording against lines of strace."""
    seen = list(_seen(lines, database, recording))
    recorded = [_plain(event) for event in recording.events if event.kind != TOLD]
    differences = [
        f"call {number}: the recorder has {ours}, strace has {theirs}"
        for number, (ours, theirs) in enumerate(zip_longest(recorded, seen))
        if ours != theirs
    ]
    return Calibration(differences, len(seen))


def since_the_life_began(lines: list[str], events: Path) -> list[str]:
    """The recorder begins when its log is opened; nothing if strace did not see that."""
    for number, line in enumerate(lines):
        if str(events) in map(_unescaped, _QUOTED.findall(line)):
            return lines[number + 1 :]
    return []


def _unescaped(text: str) -> str:
    """A path as it is; strace writes whatever is not plain ASCII with backslashes."""

    def plain(found: re.Match[bytes]) -> bytes:
        code = found[1]
        return bytes([int(code, 8) & 255]) if code.isdigit() else _LETTERS.get(code, code)

    return os.fsdecode(_ESCAPED.sub(plain, text.encode(errors="surrogateescape")))


def _plain(event: Event) -> tuple[str, str, int, int]:
    return (event.kind, event.file, event.at, len(event.data))


def _joined(lines: Iterable[str]) -> Iterator[str]:
    """Calls of several threads are told in two halves; a call counts when it is over."""
    begun: dict[str, str] = {}
    for line in lines:
        if half := _UNFINISHED.match(line):
            begun[half[1]] = half[2]
        elif rest := _RESUMED.match(line):
            yield f"{rest[1]} {begun.pop(rest[1])}{rest[2]}"
        else:
            yield line


def _seen(
    lines: list[str], database: Path, recording: Recording
) -> Iterator[tuple[str, str, int, int]]:
    folders = [str(folder) for folder in database.parents]
    names = set(recording.base)
    files = {f"{database.name}{end}" for end in ("", "-wal", "-journal")}
    for line in _joined(lines):
        call = _WHOLE.match(line)
        if call is None or int(call[3]) < 0:
            continue
        verb, arguments = call[1], call[2]
        path = _path_of(verb, arguments)
        name = os.path.basename(path)
        if path in folders:
            if verb in ("mkdir", "fsync", "fdatasync"):
                kind = MAKE_FOLDER if verb == "mkdir" else FOLDER
                yield (kind, "", folders.index(path), 0)
        elif name in files:
            yield from _of_file(verb, arguments, name, names)


def _path_of(verb: str, arguments: str) -> str:
    pattern = _QUOTED if verb in ("openat", "mkdir", "unlink") else _DESCRIPTOR
    found = pattern.search(arguments)
    return _unescaped(found[1]) if found else ""


def _of_file(
    verb: str, arguments: str, name: str, names: set[str]
) -> Iterator[tuple[str, str, int, int]]:
    if verb == "openat":
        if "O_CREAT" in arguments and name not in names:
            names.add(name)
            yield (CREATE, name, 0, 0)
    elif verb == "unlink":
        names.discard(name)
        yield (DELETE, name, 0, 0)
    elif verb == "pwrite64":
        length, offset = arguments.rsplit(", ", 2)[1:]
        yield (WRITE, name, int(offset), int(length))
    elif verb == "ftruncate":
        yield (TRUNCATE, name, int(arguments.rsplit(", ", 1)[1]), 0)
    elif verb in ("fsync", "fdatasync"):
        yield (SYNC, name, 0, 0)


if __name__ == "__main__":
    from outlast_lab.power.driving import record_life

    record_life(sys.argv[1], Path(sys.argv[2]))
