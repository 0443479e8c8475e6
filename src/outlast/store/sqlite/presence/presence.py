"""Who uses a store on SQLite, as its lock files and the kernel tell."""

from collections.abc import Iterable, Sequence
from contextlib import closing

from outlast.clock import Instant
from outlast.domain.orphans import Sign
from outlast.host import memory, processes
from outlast.store.presence import Begun, Identity, Own, Peer
from outlast.store.records import Opened
from outlast.store.sqlite.presence.exits import ExitWatch
from outlast.store.sqlite.presence.peers import forget, is_this_process, signs_of
from outlast.store.sqlite.presence.worker_lock_file import LockFiles, ProbedLock, read_begun
from outlast.store.sqlite.side_folder import session_marker
from outlast.store.sqlite.side_folder.session_marker import Marker
from outlast.store.sqlite.side_folder.side_folder import SideFolder
from outlast.store.sqlite.side_folder.users_lock import UsersLock


class SqlitePresence:
    """This process and its peers; `own` is nobody's while the store is only looked at."""

    def __init__(self, folder: SideFolder, users: UsersLock, exits: ExitWatch, own: Own) -> None:
        self._folder = folder
        self._users = users
        self._exits = exits
        self.own = own
        self._marker: Marker | None = None
        self._swept: tuple[str, ...] = ()

    def serve(self, own: Own, marker: Marker, opened: Opened) -> None:
        """The store is served from now on, under this presence of our own."""
        self.own, self._marker, self._swept = own, marker, opened.markers

    @property
    def own_id(self) -> str:
        """This process's own incarnation, or nothing while it holds nothing."""
        return self.own.id

    def identity(self) -> Identity:
        """Which process this is."""
        here = processes.this_process()
        return Identity(here.host, here.pid, here.boot_id)

    def signs_of(self, peers: Sequence[Peer]) -> list[tuple[Sign, Begun]]:
        """The lock of each, or where it cannot be asked, pid and start time."""
        return signs_of(peers, self._folder)

    def has_not_begun(self, peer: Peer, lease: tuple[int, ...]) -> bool:
        """Whether the notes of a worker, if they can be read, do not name a task it prefetched."""
        with LockFiles(self._folder) as files:
            try:
                lock = ProbedLock(files, peer.lock_file, peer.lock_inode)
            except OSError:
                return False
        with closing(lock):
            begun = read_begun(lock.descriptor, peer.incarnation)
        return begun.whole and lease not in begun.tasks

    def is_this_process(self, peer: Peer) -> bool:
        """Whether it registered from this very process, under whatever incarnation."""
        return is_this_process(peer)

    def watch(self, peers: Iterable[Peer]) -> None:
        """Be told when one of these ends, and of nobody else."""
        self._exits.watch(peers)

    def exit_signal(self, peer: Peer) -> int | None:
        """Which signal ended a process, as far as it is known."""
        return self._exits.exit_signal(peer)

    def oom_kills_since(self, before: int, group: int | None) -> int | None:
        """How many more the kernel counts in that group; None if ours is another.

        The group is known from a lock file of this boot alone, so the count is of this boot too.
        """
        now = memory.oom_kills() if group else None
        return now.kills - before if now is not None and now.group == group else None

    def forget(self, peer: Peer) -> None:
        """Remove a dead worker's lock file, once its row says so."""
        forget(peer, self._folder)

    def mark_session(self, now: Instant) -> None:
        """Set the mark that tells the next opening that this session did not end well."""
        assert self._marker is not None, "only who serves has a session"
        self._marker.set(now)

    def sweep_sessions(self) -> None:
        """Take away the marks of sessions whose crash was recovered."""
        assert self._marker is not None, "only who serves has a session"
        session_marker.sweep(self._folder, self._marker.workspace, self._swept)

    def other_users(self) -> bool:
        """Whether other processes use the store now."""
        return bool(self._users.users())
