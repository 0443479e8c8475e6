"""A file in a folder that somebody else may write in, held fast while something is done to it."""

import os
from collections.abc import Callable
from typing import Self

DESCRIPTORS = "/proc/self/fd"


class Pinned:
    """One file of a kind, pinned down: what is planted under its name later is not followed."""

    def __init__(self, name: str, folder: int, is_kind: Callable[[int], bool]) -> None:
        """`folder` is a descriptor; `is_kind` says of a mode whether it is what is expected."""
        self._name = name
        self._folder = folder
        self._is_kind = is_kind
        self._number = -1

    def __enter__(self) -> Self:
        if hasattr(os, "O_PATH"):
            flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
            self._number = os.open(self._name, flags, dir_fd=self._folder)
            found = os.fstat(self._number)
        else:
            found = os.stat(self._name, dir_fd=self._folder, follow_symlinks=False)
        if not self._is_kind(found.st_mode):
            self.__exit__()
            raise FileExistsError(f"{self._name} is not what it should be")
        return self

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
