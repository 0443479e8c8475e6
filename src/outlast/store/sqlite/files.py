"""The files beside the database: the side folder, safe creation, modes, and their durability."""

import os
import stat
from pathlib import Path

from outlast.errors import StoreUnwritable

_SAFE = os.O_CLOEXEC | os.O_NOFOLLOW


class SideFolder:
    """The private folder next to the database that holds locks and lock files."""

    def __init__(self, database: Path) -> None:
        self.database = database
        self.path = database.with_name(database.name + "-outlast")
        self.workers = self.path / "workers"
        self.openers = self.path / "openers"
        self.gate = self.path / "gate"

    def make(self) -> None:
        """Create what is missing, privately and durably, owned like the database."""
        try:
            _make_folders(self.database.parent)
            for folder in (self.path, self.workers):
                if _make_folder(folder):
                    self._match_database(folder, is_folder=True)
            for file in (self.openers, self.gate):
                os.close(self.open_file(file))
        except OSError as error:
            raise StoreUnwritable(
                f"nothing can be written in {self.database.parent} ({error.strerror});"
                " give this user write permission, or choose another path"
            ) from error

    def open_file(self, path: Path) -> int:
        """Open a side file for locking, making it if need be; never through a symbolic link."""
        try:
            return open_existing(path)
        except FileNotFoundError:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _SAFE, 0o600)
            self._match_database(path, is_folder=False)
            return descriptor

    def _match_database(self, path: Path, is_folder: bool) -> None:
        """Owner and mode of the database file: whoever may use the one may use the other."""
        try:
            like = self.database.stat()
        except FileNotFoundError:
            return
        mode = stat.S_IMODE(like.st_mode) & 0o666
        os.chmod(path, mode | (mode & 0o444) >> 2 if is_folder else mode)
        if os.geteuid() == 0:
            os.chown(path, like.st_uid, like.st_gid, follow_symlinks=False)


def open_existing(path: Path) -> int:
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
