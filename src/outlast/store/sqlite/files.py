"""The files beside the database: the side folder, safe creation, modes, and their durability."""

import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from outlast.errors import StoreUnwritable

_SAFE = os.O_CLOEXEC | os.O_NOFOLLOW


class Likeness(NamedTuple):
    """What a side file takes from the database file, so that who may use one may use the other."""

    mode: int
    uid: int
    gid: int


# A folder's times move with the kernel's tick, or by whole seconds on old file systems: what was
# looked at sooner after a change than this may look the same after the next one.
_TICK_NS = 50_000_000
_WHOLE_SECONDS_NS = 2_050_000_000


def is_settled(changed_ns: int, looked_at_ns: int) -> bool:
    """Whether no later change of a folder can carry the same time as the one that was seen."""
    tick_ns = _TICK_NS if changed_ns % 1_000_000_000 else _WHOLE_SECONDS_NS
    return looked_at_ns - changed_ns > tick_ns


class SideFolder:
    """The private folder next to the database that holds locks and lock files."""

    def __init__(self, database: Path) -> None:
        self.database = database
        self.path = database.with_name(database.name + "-outlast")
        self.workers = self.path / "workers"
        self.wake = self.path / "wake"
        self.bell = self.wake / "bell"
        self.openers = self.path / "openers"
        self.gate = self.path / "gate"
        self.recovery = self.path / "recovery"
        self.subscribers = self.path / "subscribers"

    def is_being_recovered(self) -> bool:
        """Whether somebody has the lock of a recovery; nothing is made by asking."""
        try:
            descriptor = os.open(self.recovery, os.O_RDONLY | _SAFE)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def make(self) -> None:
        """Create what is missing, privately and durably, owned like the database."""
        try:
            _make_folders(self.database.parent)
            for folder in (self.path, self.workers, self.wake):
                if _make_folder(folder):
                    self._match_database(folder, is_folder=True)
            for file in (self.openers, self.gate):
                os.close(self.open_file(file))
        except OSError as error:
            raise StoreUnwritable(
                f"nothing can be written in {self.database.parent} ({error.strerror});"
                " give this user write permission, or choose another path"
            ) from error

    def make_folder(self, path: Path) -> None:
        """Create a folder for what belongs to the store, and those above it, if need be."""
        _make_folders(path.parent)
        if _make_folder(path):
            self._match_database(path, is_folder=True)

    def open_file(self, path: Path) -> int:
        """Open a side file for locking, making it if need be; never through a symbolic link."""
        try:
            return open_existing(path)
        except FileNotFoundError:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _SAFE, 0o600)
            self._match_database(path, is_folder=False)
            return descriptor

    def open_fifo(self, path: Path) -> int:
        """Open a FIFO for both of its ends, making it if need be; never anything else."""
        with suppress(FileExistsError):
            self._make_fifo(path)
        # Looked at before it is opened: closing another name of the database would drop its locks.
        if not stat.S_ISFIFO(os.lstat(path).st_mode):
            raise FileExistsError(f"{path} is not a FIFO")
        return os.open(path, os.O_RDWR | os.O_NONBLOCK | _SAFE)

    def _make_fifo(self, path: Path) -> None:
        """It has its name only once it has its owner and mode, or whoever comes is shut out."""
        first = path.with_name(f"new-{path.name}-{os.getpid()}")
        os.mkfifo(first, 0o600)
        try:
            self._match_database(first, is_folder=False)
            os.link(first, path)
        finally:
            first.unlink()

    def likeness(self) -> Likeness | None:
        """Owner and mode of the database file, once there is one."""
        try:
            found = self.database.stat()
        except FileNotFoundError:
            return None
        return Likeness(stat.S_IMODE(found.st_mode) & 0o666, found.st_uid, found.st_gid)

    def _match_database(self, path: Path, is_folder: bool) -> None:
        like = self.likeness()
        if like is None:
            return
        os.chmod(path, like.mode | (like.mode & 0o444) >> 2 if is_folder else like.mode)
        if os.geteuid() == 0:
            os.chown(path, like.uid, like.gid, follow_symlinks=False)


def open_existing(path: Path | str) -> int:
    """Open a side file that somebody else made; never through a symbolic link."""
    return os.open(path, os.O_RDWR | _SAFE)


def _make_folders(folder: Path) -> None:
    if folder.is_dir():
        return
    _make_folders(folder.parent)
    _make_folder(folder)


def _make_folder(folder: Path) -> bool:
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return False
    sync_folder(folder.parent)
    return True


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable; a new file's name needs this as its content does."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
