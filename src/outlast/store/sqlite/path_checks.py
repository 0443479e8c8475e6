"""Where a store may lie, and what is left alone before as much as a folder is made beside it."""

import os
import stat
from contextlib import closing
from pathlib import Path

from outlast.errors import (
    NetworkFilesystem,
    NotAStore,
    StoreUnwritable,
)
from outlast.host import mounts
from outlast.settings import Settings
from outlast.store.sqlite import migrate
from outlast.store.sqlite.connect import connect, refuse_foreign_file
from outlast.store.sqlite.file_guard import file_id
from outlast.store.sqlite.side_folder.side_folder import SideFolder


def refuse_foreign(path: Path, settings: Settings) -> None:
    """Leave other programs' files alone, before as much as a folder is made beside them.

    Beside a file that was served before there is nothing to be made, and whoever prepares it or
    joins its users refuses it all the same: a connection takes longer than most other steps.
    """
    size = size_of(path)
    if size >= 0 and not os.access(path, os.R_OK | os.W_OK, effective_ids=True):
        # SQLite would open it all the same, and give the WAL the mode of the file on the way.
        raise StoreUnwritable(
            f"{path} cannot be written by this user; give it write permission on file and folder"
        )
    if size > 0 and file_id(SideFolder(path).openers) is None:
        with closing(connect(path, settings.synchronous)) as connection:
            if refuse_foreign_file(connection, path):
                migrate.pending(connection)


def refuse_own_read_only(path: Path) -> None:
    """A log that SQLite made read-only like its file would keep the next writer out."""
    found = path.stat()
    if found.st_uid == os.geteuid() != 0 and not found.st_mode & stat.S_IWUSR:
        raise StoreUnwritable(
            f"{path} is read-only, and reading it would make its log so; give its owner write"
            " permission, or read a copy"
        )


def size_of(path: Path) -> int:
    """The size of a file, -1 when there is none; refuses folders, devices and impossible names."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return -1
    except OSError as error:
        raise StoreUnwritable(
            f"{path} cannot be used ({error.strerror}); choose another path"
        ) from error
    if not stat.S_ISREG(found.st_mode):
        raise NotAStore(f"{path} is not a file; choose the path of a file for the store")
    if found.st_nlink > 1:
        raise NotAStore(f"{path} has several names (hard links); give the store a single one")
    return found.st_size


def refuse_network(path: Path, settings: Settings) -> None:
    """SQLite's locks need a disk of this machine, unless the user says otherwise."""
    place = path
    while file_id(place) is None and place != place.parent:
        place = place.parent
    kind = mounts.filesystem_type(place)
    if mounts.is_network_filesystem(kind) and not settings.allow_network_filesystem:
        raise NetworkFilesystem(
            f"{path} lies on {kind}, where SQLite's locks cannot be trusted; use a local disk,"
            " or set allow_network_filesystem if you accept the risk"
        )
