"""A worker's lock file: its flock says the process lives, its slots say which tasks have begun.

Layout: a header (magic, incarnation, boot id, checksum), two figures with their checksums (the most
memory the process was seen to use, and the group of processes it shares its memory with), then
fixed slots of task seq, token and checksum. The file is memory-mapped and never synced: what it
says survives `kill -9`, and after a reboot nobody believes it.
"""

import errno
import fcntl
import mmap
import os
import re
import struct
import threading
import zlib
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Self

from outlast.host import boot
from outlast.store.presence import NOT_WHOLE, Begun
from outlast.store.records import Grant
from outlast.store.sqlite.side_folder.safe_open import Pinned
from outlast.store.sqlite.side_folder.side_folder import SideFolder

# A power of two, so that halves of the file are whole slots.
SLOTS = 4096

_MAGIC = b"OUTLAST1"
_HEADER = struct.Struct("<8s32s36sI")
_SLOT = struct.Struct("<QQI4x")
_FIGURE = struct.Struct("<QI4x")
_PEAK_AT = _HEADER.size
_GROUP_AT = _PEAK_AT + _FIGURE.size
_HEADER_BYTES = _GROUP_AT + _FIGURE.size
_FILE_BYTES = _HEADER_BYTES + SLOTS * _SLOT.size
_EMPTY = bytes(_SLOT.size)
_ALL_FREE = bytes(SLOTS * _SLOT.size)


_NAME = re.compile(r"[0-9a-f]{32}\.lock|\.[0-9a-f]{32}\.new")


def is_lock_file(name: str) -> bool:
    """Whether it is a name that lock files have, finished or not; no other is ever removed."""
    return _NAME.fullmatch(name) is not None


class LockFile:
    """The lock file of this process's incarnation; held for as long as the process lives."""

    def __init__(self, folder: SideFolder, incarnation: str) -> None:
        """Made under a temporary name and locked before anybody can find it."""
        self._folder = folder
        self.path = folder.workers / f"{incarnation}.lock"
        # A signal handler may come in between, so it lets the same thread in twice.
        self._mutex = threading.RLock()
        self._is_closed = False
        temporary = folder.workers / f".{incarnation}.new"
        with ExitStack() as undo:
            self._descriptor = folder.open_file(temporary)
            undo.callback(os.close, self._descriptor)
            undo.callback(folder.remove, temporary)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Blocks are taken now: a full disk must not surface as SIGBUS in the middle of work.
            os.posix_fallocate(self._descriptor, 0, _FILE_BYTES)
            self._map = mmap.mmap(self._descriptor, _FILE_BYTES)
            self._map[: _HEADER.size] = _header(incarnation)
            folder.rename(temporary, self.path.name)
            undo.pop_all()
        self.inode = os.fstat(self._descriptor).st_ino
        self._free = list(range(SLOTS - 1, -1, -1))
        self._used: dict[tuple[int, int], int] = {}

    @property
    def descriptor(self) -> int:
        """What carries the lock: a child that inherits it keeps the worker from being buried."""
        return self._descriptor

    def note(self, grant: Grant) -> bool:
        """Write down that a task's work begins; False when every slot is taken."""
        with self._mutex:
            if self._is_closed:
                return False
            slot = self._used.get((grant.seq, grant.token))
            if slot is None:
                if not self._free:
                    return False
                slot = self._used[grant.seq, grant.token] = self._free.pop()
            at = _HEADER_BYTES + slot * _SLOT.size
            self._map[at : at + _SLOT.size] = _slot(grant.seq, grant.token)
            return True

    def note_memory(self, peak_bytes: int) -> None:
        """Write down how much memory this process has used at most."""
        self._note_figure(_PEAK_AT, peak_bytes)

    def note_memory_group(self, group: int) -> None:
        """Write down in which group the kernel's killings were counted for this process's row."""
        self._note_figure(_GROUP_AT, group)

    def _note_figure(self, at: int, figure: int) -> None:
        with self._mutex:
            if not self._is_closed:
                self._map[at : at + _FIGURE.size] = _figure(figure)

    def clear(self, grants: Sequence[Grant]) -> None:
        """Forget leases whose ends are committed; a newer one on the same task keeps its slot."""
        if not self._used:
            return
        with self._mutex:
            for grant in grants:
                slot = self._used.pop((grant.seq, grant.token), None)
                if slot is not None and not self._is_closed:
                    at = _HEADER_BYTES + slot * _SLOT.size
                    self._map[at : at + _SLOT.size] = _EMPTY
                    self._free.append(slot)

    def remove(self) -> None:
        """Leave for good: the name goes first, while the lock is still ours.

        One that cannot be removed is swept by whoever finds the store unused next.
        """
        with suppress(OSError):
            self._folder.remove(self.path)
        self.close()

    def abandon(self) -> None:
        """In a forked child: close, whatever thread of the parent held the mutex."""
        self._mutex = threading.RLock()
        self.close()

    def close(self) -> None:
        """Close the descriptor without unlocking: in a forked child the parent keeps its lock."""
        with self._mutex:
            if not self._is_closed:
                self._is_closed = True
                self._map.close()
                os.close(self._descriptor)


def _header(incarnation: str) -> bytes:
    body = _MAGIC + incarnation.encode().ljust(32) + boot.boot_id().encode().ljust(36)[:36]
    return body + struct.pack("<I", zlib.crc32(body))


def _slot(seq: int, token: int) -> bytes:
    return _SLOT.pack(seq, token, zlib.crc32(struct.pack("<QQ", seq, token)))


def _figure(figure: int) -> bytes:
    return _FIGURE.pack(figure, zlib.crc32(struct.pack("<Q", figure)))


def read_begun(descriptor: int, incarnation: str) -> Begun:
    """Read the slots of a lock file; anything odd about it, and nobody is refunded."""
    raw = os.pread(descriptor, _FILE_BYTES, 0)
    if len(raw) != _FILE_BYTES or raw[: _HEADER.size] != _header(incarnation):
        return NOT_WHOLE
    found = set()
    for seq, token, checksum in _SLOT.iter_unpack(_front(raw[_HEADER_BYTES:])):
        if (seq, token, checksum) == (0, 0, 0):
            continue
        if checksum != zlib.crc32(struct.pack("<QQ", seq, token)):
            return NOT_WHOLE
        found.add((seq, token))
    return Begun(True, frozenset(found), _figure_in(raw, _PEAK_AT), _figure_in(raw, _GROUP_AT))


def _front(slots: bytes) -> bytes:
    """The slots without the free ones behind: they are taken from the front, and few are used."""
    end, half = len(slots), len(slots) // 2
    while half >= _SLOT.size and slots[half:end] == _ALL_FREE[half:end]:
        end, half = half, half // 2
    return slots[:end]


def _figure_in(raw: bytes, at: int) -> int | None:
    """A figure torn by the end of its writer is none."""
    noted = raw[at : at + _FIGURE.size]
    figure: int = _FIGURE.unpack(noted)[0]
    return figure if figure and noted == _figure(figure) else None


class LockFiles:
    """The folder of all lock files, opened once for any number of questions."""

    def __init__(self, folder: SideFolder) -> None:
        self._number = -1
        self._error: OSError | None = None
        try:
            self._number = folder.open_folder(folder.workers)
        except OSError as error:
            self._error = error

    @property
    def number(self) -> int:
        """The folder's descriptor; raises OSError when there is none that may be used."""
        if self._error is not None:
            raise self._error
        return self._number

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        if self._error is None:
            os.close(self._number)


class ProbedLock:
    """Another worker's lock file, opened to ask the kernel whether its owner lives."""

    def __init__(self, files: LockFiles, name: str, inode: int | None = None) -> None:
        """Raises OSError when the file is missing, unreadable or not the one registered."""
        self._files = files
        # A name out of the database leads nowhere else, whatever it says.
        self._name = os.path.basename(name)
        with Pinned(self._name, files.number) as file:
            self.descriptor = file.open(os.O_RDWR)
        if inode is not None and os.fstat(self.descriptor).st_ino != inode:
            os.close(self.descriptor)
            raise FileNotFoundError(errno.ENOENT, "the lock file was replaced", self._name)

    def owner_is_dead(self) -> bool:
        """Whether the lock is free. Shared, since two exclusive probers would see each other."""
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def remove(self) -> None:
        """Take the dead worker's file away; only called while its lock is ours."""
        if is_lock_file(self._name):
            with suppress(FileNotFoundError):
                os.unlink(self._name, dir_fd=self._files.number)

    def close(self) -> None:
        """Stop asking."""
        os.close(self.descriptor)
