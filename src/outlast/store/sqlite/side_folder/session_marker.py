"""The session marker: a file that a process sets while it serves and takes away when it stops well.

It informs and never decides: a marker that is missing, torn or somebody else's blocks nothing and
suppresses nothing, for the file tells of the same sessions (`sessions.py`). Each process has its
own, so a clean stop cannot clear another's.
"""

import json
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from outlast.clock import Instant
from outlast.domain.worker import PreviousStop
from outlast.host import processes
from outlast.logs import logger
from outlast.store.sqlite.side_folder.side_folder import SideFolder

_SUFFIX = ".session"
_LONGEST_BYTES = 4096
_NAME = re.compile(r"[0-9a-f]{32}" + re.escape(_SUFFIX))

log = logger("outlast.store")


class Session(NamedTuple):
    """What a marker says: which process began to serve, and when."""

    incarnation: str
    started_at: int
    pid: int
    pid_started: int
    host: str
    boot_id: str
    pid_namespace: str


class Left(NamedTuple):
    """How the store was left: the sessions that ended badly, and when the last of them began."""

    stop: PreviousStop
    crashed: tuple[Session, ...] = ()
    crashed_at: int | None = None
    odd: tuple[str, ...] = ()
    """Names of markers that nobody can read."""
    unseen: tuple[Session, ...] = ()
    """Sessions of which it cannot be told from here whether they live."""

    def found_unused(self) -> "Left":
        """What the same markers tell whoever has the store to itself: nobody lives who used it.

        A container that is started again is on the same kernel, in another pid namespace.
        """
        ended = (*self.crashed, *self.unseen)
        if not ended:
            return self
        newest = max(self.crashed_at or 0, *(one.started_at for one in ended))
        return Left(PreviousStop.UNCLEAN, ended, newest, self.odd)

    def joined_by(self, unended: Iterable[Session]) -> "Left":
        """What is known once the file itself has told of sessions that never ended."""
        known = {one.incarnation for one in self.crashed}
        more = tuple(one for one in unended if one.incarnation not in known)
        if not more:
            return self
        newest = max(self.crashed_at or 0, *(one.started_at for one in more))
        crashed = (*self.crashed, *more)
        return self._replace(stop=PreviousStop.UNCLEAN, crashed=crashed, crashed_at=newest)

    @property
    def markers(self) -> tuple[str, ...]:
        """The files that a recovery is to take away."""
        return (*(f"{one.incarnation}{_SUFFIX}" for one in self.crashed), *self.odd)


class Marker:
    """This process's marker."""

    def __init__(self, folder: SideFolder, workspace: Path, incarnation: str) -> None:
        self._folder = folder
        self.workspace = workspace
        self._place = markers_of(folder, workspace)
        self._incarnation = incarnation
        self._path = self._place / f"{incarnation}{_SUFFIX}"

    def set(self, now: Instant) -> None:
        """Written under another name, synced, renamed, and the name synced too."""
        here = processes.this_process()
        said = Session(
            self._incarnation, now.utc_ms, here.pid, here.started, here.host, here.boot_id,
            here.pid_namespace,
        )  # fmt: skip
        temporary = self._path.with_suffix(".new")
        try:
            self._folder.make_folder(self._place)
            descriptor = self._folder.open_file(temporary)
            try:
                os.ftruncate(descriptor, 0)
                os.write(descriptor, json.dumps(said._asdict()).encode())
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            self._folder.rename(temporary, self._path.name)
            self._folder.sync(self._place)
        except OSError as error:
            log.warning("the session marker %s cannot be set: %s", self._path, error)

    def clear(self) -> None:
        """A clean stop: ours goes, and no other."""
        with suppress(OSError):
            self._folder.remove(self._path)


def markers_of(folder: SideFolder, workspace: Path) -> Path:
    """Where the markers of a store lie."""
    return workspace / folder.path.name / "sessions"


def how_it_was_left(folder: SideFolder, workspace: Path) -> Left:
    """What the markers tell of those who served before; reads only."""
    crashed, odd, unseen, living, newest = [], [], [], 0, 0
    for path in _markers_in(folder, markers_of(folder, workspace)):
        session = _read(folder, path)
        if session is None:
            odd.append(path.name)
            continue
        lives = _lives(session)
        living += lives is True
        if lives is None:
            unseen.append(session)
        elif not lives:
            crashed.append(session)
            newest = max(newest, session.started_at)
    ends = PreviousStop.IN_USE if living else PreviousStop.CLEAN
    if crashed or odd:
        ends = PreviousStop.UNCLEAN
    return Left(ends, tuple(crashed), newest or None, tuple(odd), tuple(unseen))


def sweep(folder: SideFolder, workspace: Path, names: Iterable[str]) -> None:
    """Take away the markers of sessions that were recovered from, and those nobody can read."""
    place = markers_of(folder, workspace)
    for name in names:
        with suppress(OSError):
            # Some names come from the file itself, whatever it says.
            if _NAME.fullmatch(name):
                folder.remove(place / name)


def _markers_in(folder: SideFolder, place: Path) -> list[Path]:
    """What lies there under a name of ours; where nothing can be read there are none."""
    try:
        return [place / name for name in sorted(folder.names_in(place)) if _NAME.fullmatch(name)]
    except OSError:
        return []


def _read(folder: SideFolder, path: Path) -> Session | None:
    try:
        with open(folder.open_existing(path, os.O_RDONLY), "rb") as file:
            said = json.loads(file.read(_LONGEST_BYTES))
        session = Session(**said)
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    types = Session.__annotations__
    is_sound = all(type(value) is types[name] for name, value in session._asdict().items())
    return session if is_sound and path.stem == session.incarnation else None


def _lives(session: Session) -> bool | None:
    """Whether its process is there; None when that cannot be told from here."""
    here = processes.this_process()
    if session.boot_id != here.boot_id:
        # After a reboot nothing of it is left; another host's processes are not ours to see.
        return False if session.host == here.host else None
    if session.pid_namespace != here.pid_namespace:
        return None
    return processes.process_is(session.pid, session.pid_started)
