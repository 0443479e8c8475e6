"""Words that the processes of a store share: all have mapped them, so reading one asks nobody.

They lie at the beginning of the gate's file. A word says nothing but that it was changed: whoever
finds another one than before has a closer look at what it stands for. What cannot be mapped, or
written, is found out by other means a little later.
"""

import mmap
import os
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path

from outlast.store.sqlite.files import open_existing

# Somebody had to wait for a writer; somebody listens for hints.
GATE, EARS = 0, 1

_WORD_BYTES = 8


def mapped(descriptor: int) -> memoryview | None:
    """The words of a file as everybody sees them, from now on; None where that cannot be had."""
    with suppress(OSError, ValueError):
        if not _is_nothing_else(descriptor):
            return None
        # One that is shorter than what is mapped would end the process that reads it.
        if os.fstat(descriptor).st_size < mmap.PAGESIZE:
            os.ftruncate(descriptor, mmap.PAGESIZE)
        return memoryview(mmap.mmap(descriptor, mmap.PAGESIZE, prot=mmap.PROT_READ)).cast("Q")
    return None


def change(descriptor: int, place: int) -> None:
    """Make a word another one than it has ever been."""
    word = time.monotonic_ns().to_bytes(_WORD_BYTES, sys.byteorder)
    with suppress(OSError):
        # Not through the mapping: on a full disk that would end the process.
        os.pwrite(descriptor, word, place * _WORD_BYTES)


def change_in(path: Path, place: int) -> None:
    """The same for whoever has not opened the file; where there is none, nobody reads it."""
    with suppress(OSError):
        descriptor = open_existing(path)
        try:
            if _is_nothing_else(descriptor):
                change(descriptor, place)
        finally:
            os.close(descriptor)


def _is_nothing_else(descriptor: int) -> bool:
    """Whether this is a file with no other name: nothing is ever written into somebody's data."""
    found = os.fstat(descriptor)
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1
