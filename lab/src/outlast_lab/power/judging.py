"""Judging an image: read by a foreign tool, held against the history and against the whole run.

The run that nobody cut short tells which contents there can be: after each commit one. A legal
image has one of them, and none that is older than the last acknowledgement before the cut.
"""

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from outlast_lab.history import ANSWERED, ASKS, KILLED, LEFT, History, Line, history_of
from outlast_lab.invariants import violations
from outlast_lab.power.choices import ALL, kept
from outlast_lab.power.disk import Image, Player
from outlast_lab.power.recording import TOLD, Recording
from outlast_lab.stored import UNREADABLE, Stored, bare_rows, content_of
from outlast_lab.wholeness import violations_of_file

LOST, BROKEN = "lost", "broken"
"""Something acknowledged is missing; or what is there is no state the store ever was in."""

_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name"
_MOST_COMPLAINTS = 5
_MANY_TRANSACTIONS = frozenset(
    {"open", "migrate", "heal", "recover", "detect", "reclaim_stale", "mark_dead", "close", "flush"}
)


class Complaint(NamedTuple):
    """What is wrong with an image: which promise is broken, and how."""

    kind: str
    detail: str


class Verdict(NamedTuple):
    """What became of one case."""

    cut: int
    choice: str
    image: str
    """Names the content of all files of the image; two images are one if this is the same."""
    complaints: list[Complaint]


class Found(NamedTuple):
    """What the foreign reader found in an image."""

    content: str
    stored: Stored


class Judge:
    """Judges the images of one recording, in a folder of its own."""

    def __init__(
        self, recording: Recording, folder: Path, reference: Sequence[str] | None = None
    ) -> None:
        self.recording = recording
        self.reference = reference
        """The content after each number of events, if nothing is lost; None if it is not known."""
        self._folder = folder
        self._player = Player(recording)
        self._found: dict[str, Found] = {}
        self._stored: dict[str, Stored] = {}
        self._verdicts: dict[tuple[str, int], list[Complaint]] = {}
        self._certain = recording.certain_since()
        self._told = _counted(event.kind == TOLD for event in recording.events)

    def learn(self) -> list[Verdict]:
        """Judge the whole run: at each cut all that was written is there."""
        reference: list[str] = []
        images = []
        for cut in range(len(self.recording.events) + 1):
            image = self.image(cut, ALL)
            images.append(image)
            reference.append(self._read(name_of(image), image).content)
        self.reference = reference
        verdicts = [self.judge(cut, ALL, image) for cut, image in enumerate(images)]
        for answered, complaint in self._done_in_parts(reference):
            verdicts[answered].complaints.append(complaint)
        return verdicts

    def _done_in_parts(self, reference: Sequence[str]) -> Iterator[tuple[int, Complaint]]:
        """A call is one transaction: between asking and answer the content changes at most once."""
        calls = self.recording.calls()
        for verb, asked, answered in calls:
            overlapping = sum(one[1] < answered and one[2] > asked for one in calls) - 1
            states = reference[asked : answered + 1]
            changes = sum(before != after for before, after in pairwise(states))
            if changes > 1 and not overlapping and verb not in _MANY_TRANSACTIONS:
                yield answered, Complaint(BROKEN, f"{verb} was done in {changes} transactions")

    def image(self, cut: int, choice: str) -> Image:
        """The files that power leaves."""
        disk = self._player.at(cut)
        return disk.image(kept(choice, disk.changes))

    def judge(self, cut: int, choice: str, image: Image | None = None) -> Verdict:
        """Judge one case."""
        image = self.image(cut, choice) if image is None else image
        name = name_of(image)
        found = self._read(name, image)
        # What is in the file is the same for the same content; what is wrong with it is not.
        complaints = [
            Complaint(BROKEN, f"{what}: {rows[:3]}") for what, rows in found.stored.faults.items()
        ]
        key = (found.content, self._told[cut])
        if key not in self._verdicts:
            self._verdicts[key] = list(self._objections(cut, found))
        complaints += [*self._verdicts[key], *self._misplaced(cut, found.content)]
        return Verdict(cut, choice, name, complaints[:_MOST_COMPLAINTS])

    def _objections(self, cut: int, found: Found) -> Iterator[Complaint]:
        stored = self._stored[found.content]
        broken = set(violations_of_file(stored))
        for one in violations(self.history(cut), stored):
            yield Complaint(BROKEN if one in broken else LOST, str(one))

    def _misplaced(self, cut: int, content: str) -> Iterator[Complaint]:
        """Is it a state that the store was in, and young enough?"""
        if self.reference is None:
            return
        latest = next((n for n in range(cut, -1, -1) if self.reference[n] == content), None)
        acknowledged = self._certain[cut]
        if latest is None:
            yield Complaint(BROKEN, "the store was never in this state")
        elif latest < acknowledged:
            line = self.recording.events[acknowledged - 1].in_words().strip()
            yield Complaint(
                LOST, f"the store is as it was before event {latest}, yet at {acknowledged}: {line}"
            )

    def history(self, cut: int) -> History:
        """What was told up to a cut."""
        lines = self.recording.told_until(cut)
        history = history_of(lines)
        if any(call.verb == "close" for call in history.under_way()):
            # Who leaves gives back what all of its names hold, and was not told so yet.
            history = history_of([*lines, *killed(lines)])
        return history

    def _read(self, name: str, image: Image) -> Found:
        if name not in self._found:
            found = self._read_files(image)
            self._stored.setdefault(found.content, found.stored)
            # Only the faults are the image's own; the content is kept once.
            self._found[name] = Found(found.content, Stored(faults=found.stored.faults))
        return self._found[name]

    def held_by(self, image: Image) -> Stored:
        """All that an image holds; what is wrong with its file is for its verdict."""
        return self._stored[self._read(name_of(image), image).content]

    def _read_files(self, image: Image) -> Found:
        """Lay the files down and read them with the standard library's SQLite."""
        found = self._read_once(image)
        if UNREADABLE in found.stored.faults:
            # A reader's own trouble passes, damage stays.
            found = self._read_once(image)
        return found

    def _read_once(self, image: Image) -> Found:
        lay_down(image, self._folder)
        try:
            return read_image(self._folder / self.recording.database, self._stored.__contains__)
        finally:
            clear(self._folder, self.recording.database)


def read_image(database: Path, is_known: Callable[[str], bool] = lambda content: False) -> Found:
    """The content of a database, and what it holds; a missing one holds nothing.

    If the content is known already, only what is wrong with the file is told besides.
    """
    if not database.exists():
        return Found(_digest([]), Stored())
    uri = f"{database.absolute().as_uri()}?mode=rw"
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
        # Nobody else is there: locking once instead of at each query takes half the time.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("BEGIN")

        def fetch(query: str) -> list[Any]:
            return connection.execute(query).fetchall()

        try:
            bare, schema = bare_rows(fetch), fetch(_SCHEMA)
            content = _digest([schema, sorted(bare.content.items())] if schema else [])
            stored = Stored() if is_known(content) else content_of(fetch)
            stored.faults = bare.faults
        except sqlite3.DatabaseError as error:
            return Found(_digest([str(error)]), Stored(faults={UNREADABLE: [[str(error)]]}))
    return Found(content, stored)


def _digest(value: object) -> str:
    return hashlib.blake2b(repr(value).encode(), digest_size=8).hexdigest()


def name_of(image: Image) -> str:
    """Two images with the same name have the same files with the same content."""
    digest = hashlib.blake2b(digest_size=12)
    for name in sorted(image):
        digest.update(f"{name} {len(image[name])} ".encode())
        digest.update(image[name])
    return digest.hexdigest()


def lay_down(image: Image, folder: Path) -> None:
    """Write the files of an image."""
    for name, content in image.items():
        (folder / name).write_bytes(content)


def clear(folder: Path, database: str) -> None:
    """Take away the database's files."""
    for end in ("", "-wal", "-shm", "-journal"):
        (folder / f"{database}{end}").unlink(missing_ok=True)


def killed(lines: Sequence[Line]) -> list[Line]:
    """The lines that say that power has ended everybody who was still there."""
    told = [line for line in lines if line[0] in (ASKS, ANSWERED)]
    gone = {line[1] for line in lines if line[0] in (KILLED, LEFT)}
    at = max((float(line[-2]) for line in told), default=0.0)
    return [[KILLED, worker, at] for worker in sorted({str(line[2]) for line in told} - gone)]


def _counted(facts: Iterable[bool]) -> list[int]:
    total, found = 0, [0]
    for fact in facts:
        total += fact
        found.append(total)
    return found
