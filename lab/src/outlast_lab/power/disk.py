"""A disk as the file system promises it: what is synced is safe, all else may be there or not.

It replays a recording event by event. A file's content and its name are made safe by different
syncs: the one by a sync of the file, the other by a sync of its folder.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import NamedTuple

from outlast_lab.power.recording import (
    CREATE,
    DELETE,
    FOLDER,
    MAKE_FOLDER,
    SYNC,
    TRUNCATE,
    WRITE,
    Event,
    Recording,
)

Image = dict[str, bytes]

_NO_INODE = -1


class Change(NamedTuple):
    """A change that no sync has made safe: of a file's content, or of the folder's names."""

    number: int
    """The event that made it."""
    kind: str
    file: str
    inode: int
    at: int = 0
    data: bytes = b""


class Disk:
    """The state of one folder at one point of a recording."""

    def __init__(self, base: Mapping[str, bytes]) -> None:
        self._inodes = count()
        self._names = {name: next(self._inodes) for name in base}
        self._safe_names = dict(self._names)
        self._safe = {self._names[name]: content for name, content in base.items()}
        self.changes: list[Change] = []
        """What may be lost, in the order it happened."""
        self.version = 0
        """Rises whenever something became safe."""

    def apply(self, number: int, event: Event) -> None:
        """Let one event happen."""
        if event.kind == CREATE:
            inode = self._names[event.file] = next(self._inodes)
            self._safe[inode] = b""
            self.changes.append(Change(number, CREATE, event.file, inode))
        elif event.kind == DELETE:
            inode = self._names.pop(event.file)
            self.changes.append(Change(number, DELETE, event.file, inode))
        elif event.kind in (WRITE, TRUNCATE):
            inode = self._names[event.file]
            change = Change(number, event.kind, event.file, inode, event.at, event.data)
            self.changes.append(change)
        elif event.kind == SYNC:
            self._make_content_safe(self._names[event.file])
        elif event.kind == MAKE_FOLDER:
            self.changes.append(Change(number, MAKE_FOLDER, "", _NO_INODE, event.at))
        elif event.kind == FOLDER:
            self._make_names_safe(event.at)

    def _make_content_safe(self, inode: int) -> None:
        content = bytearray(self._safe[inode])
        for change in self._take(lambda one: one.inode == inode and one.kind in (WRITE, TRUNCATE)):
            _change(content, change)
        self._safe[inode] = bytes(content)

    def _make_names_safe(self, folder: int) -> None:
        self._take(lambda one: one.kind == MAKE_FOLDER and one.at == folder - 1)
        if folder > 0:
            return
        for change in self._take(lambda one: one.kind in (CREATE, DELETE)):
            _rename(self._safe_names, change)
        named = {*self._safe_names.values(), *self._names.values()}
        self.changes = [one for one in self.changes if one.inode in (_NO_INODE, *named)]

    def _take(self, is_meant: Callable[[Change], bool]) -> list[Change]:
        taken = [one for one in self.changes if is_meant(one)]
        if taken:
            self.changes = [one for one in self.changes if not is_meant(one)]
            self.version += 1
        return taken

    def image(self, kept: Iterable[Change]) -> Image:
        """The files that are found if these changes, and no others, had reached the disk."""
        names = dict(self._safe_names)
        contents: dict[int, bytearray] = {}
        folders = 0
        for change in kept:
            if change.kind == MAKE_FOLDER:
                folders += 1
            elif change.kind in (CREATE, DELETE):
                _rename(names, change)
            else:
                if change.inode not in contents:
                    contents[change.inode] = bytearray(self._safe[change.inode])
                _change(contents[change.inode], change)
        if folders < sum(one.kind == MAKE_FOLDER for one in self.changes):
            # Without each folder on the way there is nothing.
            return {}
        return {name: bytes(contents.get(ino, self._safe[ino])) for name, ino in names.items()}


def _change(content: bytearray, change: Change) -> None:
    if change.kind == TRUNCATE:
        del content[change.at :]
        content.extend(bytes(change.at - len(content)))
        return
    if change.at > len(content):
        content.extend(bytes(change.at - len(content)))
    content[change.at : change.at + len(change.data)] = change.data


def _rename(names: dict[str, int], change: Change) -> None:
    if change.kind == CREATE:
        names[change.file] = change.inode
    else:
        names.pop(change.file, None)


class Player:
    """Replays a recording forward to one cut after another."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._restart()

    def _restart(self) -> None:
        self._disk = Disk(self._recording.base)
        self._cut = 0

    def at(self, cut: int) -> Disk:
        """The disk after the first `cut` events."""
        if cut < self._cut:
            self._restart()
        while self._cut < cut:
            self._disk.apply(self._cut, self._recording.events[self._cut])
            self._cut += 1
        return self._disk
