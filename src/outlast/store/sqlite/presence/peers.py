"""Who is alive: one judgement, used at open, at claim and by heal."""

import errno
import os
from typing import NamedTuple

from outlast.clock import Instant
from outlast.domain.orphans import Judgement, Patience, Sign, judge_worker
from outlast.host import kernel, memory
from outlast.logs import logger
from outlast.store.sqlite.presence.worker_lock_file import (
    NOT_WHOLE,
    Begun,
    LockFile,
    ProbedLock,
    read_begun,
)
from outlast.store.sqlite.side_folder.side_folder import SideFolder

# The file is missing, replaced, or not ours to open; any other error says nothing of its owner.
_NO_LOCK_TO_ASK = frozenset({errno.ENOENT, errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENOTDIR})

log = logger("outlast.heal")


class Peer(NamedTuple):
    """Another incarnation as it registered itself."""

    incarnation: str
    name: str
    boot_id: str
    pid: int
    pid_started: int
    pid_namespace: str
    lock_file: str
    lock_inode: int
    beat_at: int
    beat_mono_ms: int
    host: str

    def silent_ms(self, now: Instant) -> int:
        """Since its last beat; only within one boot do monotonic times compare."""
        if self.boot_id == kernel.boot_id():
            return max(0, now.mono_ms - self.beat_mono_ms)
        return max(0, now.utc_ms - self.beat_at)


class Judged(NamedTuple):
    """A peer, what is thought of it and why, and what its lock file says had begun."""

    peer: Peer
    sign: Sign
    judgement: Judgement
    begun: Begun

    @property
    def is_dead(self) -> bool:
        """Whether its tasks may be taken."""
        return self.judgement.is_dead


class Incarnation:
    """This process's opening of this file; its lock file is its sign of life."""

    def __init__(self, folder: SideFolder, incarnation: str) -> None:
        self.id = incarnation
        self.process = kernel.this_process()
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


def judge(peer: Peer, folder: SideFolder, now: Instant, patience: Patience) -> Judged:
    """Ask the kernel, then let the one rule decide."""
    sign, begun = sign_of(peer, folder)
    return Judged(peer, sign, judge_worker(sign, peer.silent_ms(now), patience), begun)


def sign_of(peer: Peer, folder: SideFolder) -> tuple[Sign, Begun]:
    """The lock, or where it cannot be asked, pid and start time."""
    try:
        lock = ProbedLock(_lock_path(peer, folder), peer.lock_inode)
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


def bury(peer: Peer, folder: SideFolder) -> None:
    """Remove a dead worker's lock file, once its row says so, under its own lock."""
    try:
        lock = ProbedLock(_lock_path(peer, folder), peer.lock_inode)
    except OSError:
        return
    try:
        if lock.owner_is_dead():
            lock.remove()
    except OSError as error:
        log.info("the lock file of dead worker %s stays: %s", peer.name, error)
    finally:
        lock.close()


def _lock_path(peer: Peer, folder: SideFolder) -> str:
    # Put together as text: a detector asks for a thousand of them.
    return os.path.join(folder.workers, os.path.basename(peer.lock_file))


def _sign_by_pid(peer: Peer) -> Sign:
    """Without a lock to probe, a pid counts only within this boot and this pid namespace."""
    if is_this_process(peer):
        # This very process, and yet not its present incarnation: one that could not say goodbye.
        return Sign.PROCESS_GONE
    here = kernel.this_process()
    if (peer.boot_id, peer.pid_namespace) != (here.boot_id, here.pid_namespace):
        return Sign.NONE
    lives = kernel.process_is(peer.pid, peer.pid_started)
    if lives is None:
        return Sign.NONE
    return Sign.PROCESS_THERE if lives else Sign.PROCESS_GONE


def is_this_process(peer: Peer) -> bool:
    """Whether it registered from this very process, under whatever incarnation."""
    here = kernel.this_process()
    return (peer.pid, peer.pid_started, peer.boot_id) == (here.pid, here.started, here.boot_id)


def sweep_strays(folder: SideFolder, registered: set[str]) -> None:
    """Remove lock files that never got a row, left by a crash in between; sole access only."""
    for path in folder.workers.iterdir():
        if path.name in registered:
            continue
        try:
            lock = ProbedLock(path, path.stat().st_ino)
        except OSError:
            continue
        if lock.owner_is_dead():
            lock.remove()
        lock.close()
