"""An apsw VFS over the default one that can fail a sync, which is no replaceable system call.

What such a VFS raises hangs over everything that SQLite does until it returns, and that is no
state to call Python functions in: so in a case, either syncs fail or system calls do.
"""

from typing import Any

import apsw

from outlast_lab.io_faults.faults import LATE, Fault
from outlast_lab.io_faults.switch import switch
from outlast_lab.io_faults.system_calls import sort_of, stand_between

_BASE = "unix"
_kept: list[object] = []


class _File(apsw.VFSFile):
    def __init__(self, name: Any, flags: list[int]) -> None:
        self._sort = sort_of(_path(name)) if name is not None else "temp"
        super().__init__(_BASE, name, flags)

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name for it
        how = switch.meet(f"sync {self._sort}")
        if how is None or how == LATE:
            super().xSync(flags)
        if how is not None:
            raise apsw.exception_for(apsw.SQLITE_IOERR_FSYNC)


class _Vfs(apsw.VFS):
    def __init__(self, is_default: bool) -> None:
        super().__init__("outlast-lab-io", _BASE, makedefault=is_default)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's name
        return _File(name, flags)


def _path(name: Any) -> str:
    return name.filename() if isinstance(name, apsw.URIFilename) else str(name)


def install(fault: Fault | None) -> None:
    """From now on SQLite goes through a layer of faults in this process; to count, through all."""
    is_sync = fault is not None and fault.kind == "sync"
    vfs = _Vfs(is_default=fault is None or is_sync)
    _kept.append(vfs)
    if not is_sync:
        stand_between(vfs)
