"""Who is alive: one judgement, used at open, at claim and by heal."""

import errno
import os
from collections.abc import Iterable

from outlast.domain.orphans import Sign
from outlast.host import memory, processes
from outlast.logs import logger
from outlast.store.presence import NOT_WHOLE, Begun, Peer
from outlast.store.sqlite.presence.worker_lock_file import (
    LockFile,
    LockFiles,
    ProbedLock,
    is_lock_file,
    read_begun,
)
from outlast.store.sqlite.side_folder.side_folder import SideFolder

# The file is missing, replaced, or not ours to open; any other error says nothing of its owner.
_NO_LOCK_TO_ASK = frozenset({errno.ENOENT, errno.EACCES, errno.EPERM, errno.EEXIST, errno.ENOTDIR})

log = logger("outlast.heal")


class Incarnation:
    """This process's opening of this file; its lock file is its sign of life."""

    def __init__(self, folder: SideFolder, incarnation: str) -> None:
        self.id = incarnation
        self.rows: dict[str, int] = {}
        """The rows that it is known to have, by the names of its workers."""
        self.process = processes.this_process()
        self.lock_file = LockFile(folder, self.id)
        # Read once: the count in the row and the group in the file must be of one moment.
        counted = memory.oom_kills()
        self._oom_kills = None if counted is None else counted.kills
        if counted is not None:
            self.lock_file.note_memory_group(counted.group)

    def registration(self, name: str) -> dict[str, object]:
        """The values of this incarnation's row under one worker name."""
        return {
            "incarnation": self.id,
            "name": name,
            "host": self.process.host,
            "boot_id": self.process.boot_id,
            "pid": self.process.pid,
            "pid_started": self.process.started,
            "pid_namespace": self.process.pid_namespace,
            "lock_file": self.lock_file.path.name,
            "lock_inode": self.lock_file.inode,
            "oom_kills": self._oom_kills,
        }


def signs_of(peers: Iterable[Peer], folder: SideFolder) -> list[tuple[Sign, Begun]]:
    """The strongest sign of each; the folder of lock files is opened once for all."""
    with LockFiles(folder) as files:
        return [sign_of(peer, files) for peer in peers]


def sign_of(peer: Peer, files: LockFiles) -> tuple[Sign, Begun]:
    """The lock, or where it cannot be asked, pid and start time."""
    try:
        lock = ProbedLock(files, peer.lock_file, peer.lock_inode)
    except OSError as error:
        by_pid = error.errno in _NO_LOCK_TO_ASK
        return _sign_by_pid(peer) if by_pid else Sign.NONE, NOT_WHOLE
    try:
        if lock.owner_is_dead():
            return Sign.LOCK_FREE, read_begun(lock.descriptor, peer.incarnation)
        return Sign.LOCK_HELD, NOT_WHOLE
    except OSError:
        return Sign.NONE, NOT_WHOLE
    finally:
        lock.close()


def forget(peer: Peer, folder: SideFolder) -> None:
    """Remove a dead worker's lock file, once its row says so, under its own lock."""
    with LockFiles(folder) as files:
        try:
            lock = ProbedLock(files, peer.lock_file, peer.lock_inode)
        except OSError:
            return
        try:
            if lock.owner_is_dead():
                lock.remove()
        except OSError as error:
            log.info("the lock file of dead worker %s stays: %s", peer.name, error)
        finally:
            lock.close()


def _sign_by_pid(peer: Peer) -> Sign:
    """Without a lock to probe, a pid counts only within this boot and this pid namespace."""
    if is_this_process(peer):
        # This very process, and yet not its present incarnation: one that could not say goodbye.
        return Sign.PROCESS_GONE
    here = processes.this_process()
    if (peer.boot_id, peer.pid_namespace) != (here.boot_id, here.pid_namespace):
        return Sign.NONE
    lives = processes.process_is(peer.pid, peer.pid_started)
    if lives is None:
        return Sign.NONE
    return Sign.PROCESS_THERE if lives else Sign.PROCESS_GONE


def is_this_process(peer: Peer) -> bool:
    """Whether it registered from this very process, under whatever incarnation."""
    here = processes.this_process()
    return (peer.pid, peer.pid_started, peer.boot_id) == (here.pid, here.started, here.boot_id)


def sweep_strays(folder: SideFolder, registered: set[str]) -> None:
    """Remove lock files that never got a row, left by a crash in between; sole access only."""
    with LockFiles(folder) as files:
        for name in os.listdir(files.number):
            if name in registered or not is_lock_file(name):
                continue
            try:
                lock = ProbedLock(files, name)
            except OSError:
                continue
            if lock.owner_is_dead():
                lock.remove()
            lock.close()
