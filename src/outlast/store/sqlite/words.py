"""Words that the processes of a store share: all have mapped them, so reading one asks nobody.

Ours lie at the beginning of the gate's file. A word says nothing but that it was changed: whoever
finds another one than before has a closer look at what it stands for. What cannot be mapped, or
written, is found out by other means a little later.
"""

import mmap
import os
import stat
import sys
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

from outlast.host import kernel
from outlast.store.sqlite.side_folder.side_folder import open_existing

# Somebody had to wait for a writer; somebody listens for hints.
GATE, EARS = 0, 1

_WORD_BYTES = 8


def mapped(path: Path, descriptor: int) -> memoryview | None:
    """The words of an open file as everybody sees them, from now on; None where it cannot be.

    By an opening of its own: a lock lives as long as any copy of the descriptor that took it.
    """
    with suppress(OSError, ValueError):
        found = os.fstat(descriptor)
        if not _is_nothing_else(found):
            return None
        if found.st_size < mmap.PAGESIZE or not found.st_blocks:
            # What is mapped and has no place on the disk would end the process that reads it.
            os.pwrite(descriptor, b"\0", mmap.PAGESIZE - 1)
        own = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if os.path.samestat(os.fstat(own), found):
                words = mmap.mmap(own, mmap.PAGESIZE, prot=mmap.PROT_READ)
                return memoryview(words).cast("Q")
        finally:
            os.close(own)
    return None


def mapped_index(descriptor: int, count: int) -> Sequence[int] | None:
    """The first words, of four bytes, of the engine's index; None where it cannot be.

    Not by the standard library, which keeps a descriptor of its own: closing it would drop every
    POSIX lock that this process has on the file.
    """
    library = kernel.c_library()
    if not hasattr(library, "mmap") or os.fstat(descriptor).st_size < 4 * count:
        return None
    import ctypes

    map_file, unmap, size = library.mmap, library.munmap, ctypes.c_size_t
    map_file.restype = ctypes.c_void_p
    map_file.argtypes = (ctypes.c_void_p, size, *[ctypes.c_int] * 3, ctypes.c_long)
    unmap.argtypes = (ctypes.c_void_p, size)
    address = map_file(None, 4 * count, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    if address == ctypes.c_void_p(-1).value:
        return None
    words = (ctypes.c_uint32 * count).from_address(address)
    weakref.finalize(words, unmap, address, 4 * count).atexit = False
    return cast(Sequence[int], words)


def change(descriptor: int, place: int) -> None:
    """Make a word another one than it has ever been."""
    word = time.monotonic_ns().to_bytes(_WORD_BYTES, sys.byteorder)
    with suppress(OSError):
        # Not through the mapping: on a full disk that would end the process.
        os.pwrite(descriptor, word, place * _WORD_BYTES)


def change_in(path: Path, place: int) -> None:
    """The same for whoever has not opened the file; where there is none, nobody reads it."""
    with suppress(OSError):
        # Before it is opened: closing another name of the database would drop its locks.
        if not _is_nothing_else(path.lstat()):
            return
        descriptor = open_existing(path)
        try:
            change(descriptor, place)
        finally:
            os.close(descriptor)


def _is_nothing_else(found: os.stat_result) -> bool:
    """Whether this is a file with no other name: nothing is ever written into somebody's data."""
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1
