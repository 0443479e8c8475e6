"""Who is alive: one judgement, used at open, at claim and by heal."""

import errno
import logging
from enum import Enum
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from outlast import _host
from outlast.store.sqlite.files import SideFolder
from outlast.store.sqlite.lockfile import NOT_WHOLE, Begun, LockFile, ProbedLock, read_begun

# The file is missing, replaced, or not ours to open; any other error says nothing of its owner.
_NO_LOCK_TO_ASK = frozenset({errno.ENOENT, errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENOTDIR})

log = logging.getLogger("outlast.heal")


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


class Verdict(Enum):
    """What the kernel says of a peer."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"


class Judged(NamedTuple):
    """A peer, the verdict, and what its lock file says had begun."""

    peer: Peer
    verdict: Verdict
    begun: Begun


class Incarnation:
    """This process's opening of this file; its lock file is its sign of life."""

    def __init__(self, folder: SideFolder, id: str | None = None) -> None:
        self.id = id or uuid4().hex
        self.process = _host.this_process()
        self.lock_file = LockFile(folder, self.id)

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
        }


def judge(peer: Peer, folder: SideFolder) -> Judged:
    """The kernel's lock decides; only where it cannot be asked do pid and start time."""
    try:
        lock = ProbedLock(_lock_path(peer, folder), peer.lock_inode)
    except OSError as error:
        by_pid = error.errno in _NO_LOCK_TO_ASK
        return Judged(peer, _judge_by_pid(peer) if by_pid else Verdict.UNKNOWN, NOT_WHOLE)
    try:
        if lock.owner_is_dead():
            return Judged(peer, Verdict.DEAD, read_begun(lock.descriptor, peer.incarnation))
        return Judged(peer, Verdict.ALIVE, NOT_WHOLE)
    except OSError:
        return Judged(peer, Verdict.UNKNOWN, NOT_WHOLE)
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


def _lock_path(peer: Peer, folder: SideFolder) -> Path:
    return folder.workers / Path(peer.lock_file).name


def _judge_by_pid(peer: Peer) -> Verdict:
    """Without a lock to probe, a pid counts only within this boot and this pid namespace."""
    here = _host.this_process()
    if (peer.pid, peer.pid_started, peer.boot_id) == (here.pid, here.started, here.boot_id):
        # This very process, and yet not its present incarnation: one that could not say goodbye.
        return Verdict.DEAD
    if (peer.boot_id, peer.pid_namespace) != (here.boot_id, here.pid_namespace):
        return Verdict.UNKNOWN
    lives = _host.process_is(peer.pid, peer.pid_started)
    if lives is None:
        return Verdict.UNKNOWN
    return Verdict.ALIVE if lives else Verdict.DEAD


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
