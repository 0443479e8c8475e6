"""Standing between SQLite and the kernel: each write of a file is seen, and may be spoilt.

SQLite lets its system calls be replaced; nothing else in the process is touched. For processes
that are about to be killed only: what is replaced stays replaced.
"""

import ctypes
import os
from collections.abc import Callable

import apsw

# Told the file's name and what is written, twice for each write: when half of it is in the file,
# and when all of it is. Answers 0 to go on, or the errno to report to SQLite at once.
OnWrite = Callable[[str, str, bytes], int]

HALF, WHOLE = "write.half", "write.whole"

_SIGNATURE = ctypes.CFUNCTYPE(
    ctypes.c_ssize_t,
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int64,
    use_errno=True,
)
_kept: list[object] = []


def watch_writes(on_write: OnWrite) -> None:
    """Tell `on_write` of every write SQLite makes from now on."""
    real = _SIGNATURE(("pwrite64", ctypes.CDLL(None, use_errno=True)))

    def pwrite(descriptor: int, data: int, length: int, offset: int) -> int:
        name = os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))
        written = ctypes.string_at(data, length)
        half = length // 2
        for at, size, point in ((0, half, HALF), (half, length - half, WHOLE)):
            if real(descriptor, data + at, size, offset + at) != size:
                return -1
            if error := on_write(name, point, written):
                ctypes.set_errno(error)
                return -1
        return length

    callback = _SIGNATURE(pwrite)
    vfs = apsw.VFS("watched", base="unix")
    pointer = ctypes.cast(callback, ctypes.c_void_p).value
    assert pointer is not None
    assert vfs.xSetSystemCall("pwrite64", pointer)
    _kept.extend((callback, vfs))
