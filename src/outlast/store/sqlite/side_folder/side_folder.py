"""The files beside the database: the side folder, safe creation, modes, and their durability."""

import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from outlast.errors import StoreUnwritable
from outlast.store.sqlite.side_folder.safe_open import Pinned

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
                self._make_folder(folder)
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
        self._make_folder(path)

    def _make_folder(self, path: Path) -> None:
        if _make_folder(path):
            descriptor = _open_folder(path)
            try:
                self._match_database(descriptor, is_folder=True)
            finally:
                os.close(descriptor)

    def open_file(self, path: Path) -> int:
        """Open a side file for locking, making it if need be; never through a symbolic link."""
        with suppress(FileNotFoundError):
            return open_existing(path)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _SAFE, 0o600)
        except FileExistsError:
            # Somebody else has made it meanwhile, and sees to its owner and mode.
            return open_existing(path)
        try:
            self._match_database(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def open_fifo(self, path: Path) -> int:
        """Open a FIFO for both of its ends, making it if need be; never anything else."""
        folder = _open_folder(path.parent)
        try:
            # One that is there is opened without a change of its folder, which others watch.
            with suppress(FileNotFoundError):
                return _open_fifo(path.name, folder)
            with suppress(FileExistsError):
                self._make_fifo(path.name, folder)
            return _open_fifo(path.name, folder)
        finally:
            os.close(folder)

    def _make_fifo(self, name: str, folder: int) -> None:
        """It has its name only once it has its owner and mode, or whoever comes is shut out."""
        first = f"new-{name}-{os.urandom(8).hex()}"
        os.mkfifo(first, 0o600, dir_fd=folder)
        try:
            with Pinned(first, folder, stat.S_ISFIFO) as fifo:
                self._match_database(fifo.address)
            os.link(first, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        finally:
            os.unlink(first, dir_fd=folder)

    def likeness(self) -> Likeness | None:
        """Owner and mode of the database file, once there is one."""
        try:
            found = self.database.stat()
        except FileNotFoundError:
            return None
        return Likeness(stat.S_IMODE(found.st_mode) & 0o666, found.st_uid, found.st_gid)

    def _match_database(self, new: int | str, *, is_folder: bool = False) -> None:
        """Give owner and mode to a descriptor or a pinned file; by its name, it may be another's:
        the folder belongs to the owner of the database, and this user may be root."""
        like = self.likeness()
        if like is None:
            return
        os.chmod(new, like.mode | (like.mode & 0o444) >> 2 if is_folder else like.mode)
        if os.geteuid() == 0:
            os.chown(new, like.uid, like.gid)


def open_existing(path: Path | str) -> int:
    """Open a side file that somebody else made; never through a symbolic link."""
    return os.open(path, os.O_RDWR | _SAFE)


def _open_fifo(name: str, folder: int) -> int:
    # Looked at before it is opened: closing another name of the database would drop its locks.
    with Pinned(name, folder, stat.S_ISFIFO) as fifo:
        return os.open(fifo.address, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


def _open_folder(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | _SAFE)


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
