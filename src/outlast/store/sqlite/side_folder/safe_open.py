"""A file in a folder that somebody else may write in, held fast while something is done to it."""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Self

DESCRIPTORS = "/proc/self/fd"


class Planted(FileExistsError):
    """Something that the store did not make lies where a folder or file of its own belongs."""

    def __init__(self, path: Path | str, what: str) -> None:
        super().__init__(errno.EEXIST, what, str(path))

    @property
    def sentence(self) -> str:
        """What to tell the user who wanted to open the store."""
        return (
            f"{self.filename} {self.strerror}, so the store is not opened and nothing was changed"
            " there; find out who put it there, then remove it or give it back its owner"
        )


class Pinned:
    """One file of a kind, pinned down: what is planted under its name later is not followed."""

    def __init__(
        self, path: Path | str, folder: int, is_kind: Callable[[int], bool] = stat.S_ISREG
    ) -> None:
        """`folder` is a descriptor of the folder that the file lies in; `is_kind` says of a mode
        whether it is what is expected."""
        self._path = path
        self._name = os.path.basename(path)
        self._folder = folder
        self._is_kind = is_kind
        self._number = -1

    def __enter__(self) -> Self:
        if hasattr(os, "O_PATH"):
            flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
            self._number = os.open(self._name, flags, dir_fd=self._folder)
            self._found = os.fstat(self._number)
        else:
            self._found = os.stat(self._name, dir_fd=self._folder, follow_symlinks=False)
        mode, names = self._found.st_mode, self._found.st_nlink
        # A plain file with a second name may be the database itself, whose POSIX locks would be
        # dropped with the first descriptor that is closed, or anybody's data.
        if not self._is_kind(mode) or (stat.S_ISREG(mode) and names > 1):
            self.__exit__()
            raise Planted(
                self._path, "is a symbolic link, has a second name, or is of another kind than ours"
            )
        return self

    def open(self, flags: int) -> int:
        """A descriptor of the pinned file, and of nothing that took its name since."""
        flags |= os.O_CLOEXEC | os.O_NONBLOCK
        if self._number >= 0:
            try:
                return os.open(self.address, flags)
            except FileNotFoundError:
                # There is no /proc here.
                pass
        opened = os.open(self._name, flags | os.O_NOFOLLOW, dir_fd=self._folder)
        if not os.path.samestat(os.fstat(opened), self._found):
            os.close(opened)
            raise Planted(self._path, "was replaced while it was opened")
        return opened

    @property
    def address(self) -> str:
        """Where to reach it and nothing else; a path to nowhere where that cannot be done."""
        return f"{DESCRIPTORS}/{self._number}"

    def address_in(self, folder: str) -> str:
        """The same, or by its name where its folder is not reached by a descriptor either."""
        return self.address if folder.startswith(DESCRIPTORS) else f"{folder}/{self._name}"

    def __exit__(self, *details: object) -> None:
        number, self._number = self._number, -1
        if number >= 0:
            os.close(number)
