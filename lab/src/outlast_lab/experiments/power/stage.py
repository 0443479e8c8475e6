"""The fork servers that share the experiment's work, and the folder of their images."""

import fcntl
import os
import shutil
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from outlast_lab.stage.fork_server import ForkServer
from outlast_lab.stage.pool import Pool, as_many_as_processors

MEMORY = Path("/dev/shm")
PREFIX = "outlast-lab-power-"
OWNER = "owner"
"""The file in a folder of images that its owner keeps locked."""

_MOST_HANDS = 8
_OLD_SECONDS = 24 * 3600


class Hands(Pool):
    """Some of them, as many as there are processors, and the images that they lay down.

    Images are laid down, read and taken away by the thousand: in memory, where there is some.
    """

    def __init__(self, folder: Path, number: int | None = None) -> None:
        place = MEMORY if os.access(MEMORY, os.W_OK) else folder
        clear_what_the_dead_left(place)
        self._images, self._owner = _owned_folder(place)
        number = number or as_many_as_processors(_MOST_HANDS)
        try:
            super().__init__(_hand(self._images / str(n)) for n in range(number))
        except BaseException:
            self._clear_away()
            raise

    def __exit__(self, kind: object, *details: object) -> None:
        """End all of them, and leave no image."""
        try:
            super().__exit__(kind, *details)
        finally:
            self._clear_away()

    def _clear_away(self) -> None:
        shutil.rmtree(self._images, ignore_errors=True)
        os.close(self._owner)


def _hand(images: Path) -> ForkServer:
    images.mkdir()
    return ForkServer("outlast_lab.experiments.power.serving:main", str(images))


def _owned_folder(place: Path) -> tuple[Path, int]:
    """A new folder and the lock that says it is in use; it has its name when it is locked."""
    made = Path(tempfile.mkdtemp(prefix=f".{PREFIX}", dir=place))
    owner = os.open(made / OWNER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(owner, fcntl.LOCK_EX)
    return made.rename(made.with_name(made.name[1:])), owner


def clear_what_the_dead_left(place: Path) -> None:
    """Remove our own folders of images whose owner was killed."""
    for folder in place.glob(f"{PREFIX}*"):
        with suppress(OSError):
            found = folder.lstat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and _is_left(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_left(folder: Path) -> bool:
    try:
        owner = os.open(folder / OWNER, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return time.time() - folder.stat().st_mtime > _OLD_SECONDS
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        return True
    finally:
        os.close(owner)
