"""The files beside the database: the side folder, safe creation, modes, and their durability."""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from outlast.errors import StoreUnwritable
from outlast.store.sqlite.side_folder.safe_open import Pinned, Planted

_SAFE = os.O_CLOEXEC | os.O_NOFOLLOW
_NO_FOLDER = (errno.ELOOP, errno.ENOTDIR)


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
    """The private folder next to the database that holds locks and lock files.

    Whatever is done in it or in a folder of it goes by a descriptor that `open_folder` gives:
    opened without following a link, and of a folder that belongs to the owner of the database.
    """

    def __init__(self, database: Path) -> None:
        self.database = database
        self.path = database.with_name(database.name + "-outlast")
        self.workers = self.path / "workers"
        self.wake = self.path / "wake"
        self.openers = self.path / "openers"
        self.gate = self.path / "gate"
        self.recovery = self.path / "recovery"
        self.subscribers = self.path / "subscribers"

    def is_locked(self, path: Path) -> bool:
        """Whether somebody has the lock of a side file; nothing is made by asking."""
        try:
            descriptor = self.open_existing(path, os.O_RDONLY)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def is_made(self) -> bool:
        """Whether there is a lock of the openers to join."""
        try:
            with self.opened(self.path) as folder:
                os.stat(self.openers.name, dir_fd=folder, follow_symlinks=False)
        except Planted:
            raise
        except OSError:
            return False
        return True

    def make(self) -> None:
        """Create what is missing, privately and durably, owned like the database.

        But not the store's own folder: a path that leads nowhere is a slip of the pen.
        """
        parent = self.database.parent
        if not parent.is_dir():
            raise StoreUnwritable(
                f"there is no folder {parent}; make it first, or choose another path for the store"
            )
        try:
            self.make_folder(self.path)
            with self.opened(self.path) as side:
                made = [
                    self._make_in(side, folder)
                    for folder in (self.workers, self.wake, self.subscribers)
                ]
                if any(made):
                    os.fsync(side)
            for file in (self.openers, self.gate):
                os.close(self.open_file(file))
        except Planted as error:
            raise StoreUnwritable(error.sentence) from error
        except OSError as error:
            raise StoreUnwritable(
                f"nothing can be written in {self.database.parent} ({error.strerror});"
                " give this user write permission, or choose another path"
            ) from error

    def make_folder(self, path: Path) -> None:
        """Create the side folder or one in it, and those above it, if need be."""
        with suppress(FileNotFoundError):
            os.close(self.open_folder(path))
            return
        if self._is_outermost(path):
            _make_folders(path.parent)
            parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        else:
            self.make_folder(path.parent)
            parent = self.open_folder(path.parent)
        try:
            if self._make_in(parent, path):
                os.fsync(parent)
        finally:
            os.close(parent)

    def _make_in(self, parent: int, path: Path) -> bool:
        """Whether the folder was missing; one that is there must be ours."""
        with suppress(FileNotFoundError):
            os.close(self._open_in(parent, path))
            return False
        self._refuse_to_make_for_another(path)
        try:
            os.mkdir(path.name, 0o700, dir_fd=parent)
        except FileExistsError:
            os.close(self._open_in(parent, path))
            return False
        descriptor = self._open_in(parent, path)
        try:
            self._match_database(descriptor, is_folder=True)
        finally:
            os.close(descriptor)
        return True

    def _refuse_to_make_for_another(self, path: Path) -> None:
        """Nobody but root can give a folder away, and its owner would have to refuse it."""
        if os.geteuid() not in (0, self._owner_uid()):
            raise PermissionError(
                errno.EPERM,
                f"{path.name} is to be made by user {self._owner_uid()}, who owns the database,"
                " or by root",
                str(path),
            )

    def _is_outermost(self, path: Path) -> bool:
        return path.name == self.path.name

    def open_folder(self, path: Path) -> int:
        """A descriptor of the side folder or of one in it; anything else is refused as planted.

        Markers may lie in a workspace: the folder of the same name there counts as one, too.
        """
        if self._is_outermost(path):
            return self._open_in(None, path)
        with self.opened(path.parent) as parent:
            return self._open_in(parent, path)

    @contextmanager
    def opened(self, path: Path) -> Iterator[int]:
        """The same for a block, to be given as `dir_fd`."""
        descriptor = self.open_folder(path)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _open_in(self, parent: int | None, path: Path) -> int:
        try:
            name = path if parent is None else path.name
            descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | _SAFE, dir_fd=parent)
        except OSError as error:
            if error.errno in _NO_FOLDER and os.path.lexists(path):
                raise Planted(path, "is a symbolic link, or no folder at all") from error
            raise
        try:
            self._check_owner(descriptor, path)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _check_owner(self, descriptor: int, path: Path) -> None:
        owner = self._owner_uid()
        if os.fstat(descriptor).st_uid == owner:
            return
        # Root makes a folder and then gives it away, and may be at it or have died in between.
        is_half_made = os.geteuid() == 0 and not os.listdir(descriptor)
        found = os.fstat(descriptor).st_uid
        if found == 0 and is_half_made:
            self._match_database(descriptor, is_folder=True)
        elif found != owner:
            raise Planted(path, f"belongs to user {found} and not to user {owner} like the store")

    def _owner_uid(self) -> int:
        """Who owns the database, or will own it once this process has made it."""
        like = self.likeness()
        return os.geteuid() if like is None else like.uid

    def open_existing(self, path: Path, flags: int = os.O_RDWR) -> int:
        """Open a side file that somebody else made; never through a link, nor anything else."""
        with self.opened(path.parent) as folder, Pinned(path, folder) as file:
            return file.open(flags)

    def open_file(self, path: Path) -> int:
        """Open a side file for locking, making it if need be; never through a symbolic link."""
        with self.opened(path.parent) as folder:
            with suppress(FileNotFoundError), Pinned(path, folder) as file:
                return file.open(os.O_RDWR)
            try:
                flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _SAFE
                descriptor = os.open(path.name, flags, 0o600, dir_fd=folder)
            except FileExistsError:
                # Somebody else has made it meanwhile, and sees to its owner and mode.
                with Pinned(path, folder) as file:
                    return file.open(os.O_RDWR)
        try:
            self._match_database(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def remove(self, path: Path) -> None:
        """Remove a side file, if it is there; who calls this knows the name for one of ours."""
        with suppress(FileNotFoundError), self.opened(path.parent) as folder:
            os.unlink(path.name, dir_fd=folder)

    def rename(self, path: Path, name: str) -> None:
        """Give a side file another name in the same folder."""
        with self.opened(path.parent) as folder:
            os.rename(path.name, name, src_dir_fd=folder, dst_dir_fd=folder)

    def names_in(self, path: Path) -> list[str]:
        """What lies in a folder now, whoever put it there."""
        with self.opened(path) as folder:
            return os.listdir(folder)

    def sync(self, path: Path) -> None:
        """Make the names in a folder durable."""
        with self.opened(path) as folder:
            os.fsync(folder)

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


def _make_folders(folder: Path) -> None:
    if folder.is_dir():
        return
    _make_folders(folder.parent)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable; a new file's name needs this as its content does."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
