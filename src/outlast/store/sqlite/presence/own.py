"""This process as a holder of tasks: its incarnation, its names, and what it has begun."""

import threading
from collections.abc import Sequence
from uuid import uuid4

from outlast.clock import Instant
from outlast.errors import DeclaredDead, StoreError, StoreUnwritable
from outlast.store.locking import LockGrant
from outlast.store.records import Grant, Principal, Settlement
from outlast.store.sqlite.presence.peers import Incarnation
from outlast.store.sqlite.side_folder.side_folder import SideFolder
from outlast.store.sqlite.transaction import Transaction

_ENDING = "this store is being closed; open it again"
_DEAD = "another process took this one for dead and put its tasks back; it begins anew"


class Holding:
    """Made when the process first holds something: its lock file is there before its row."""

    def __init__(self, folder: SideFolder) -> None:
        self._folder = folder
        self.session_id = uuid4().hex
        """The process's opening of the file; its first incarnation has the same id."""
        self._next_id = self.session_id
        self._incarnation: Incarnation | None = None
        self._holders: dict[str, int] = {}
        self._in_service: set[str] = set()
        self._mutex = threading.Lock()
        self.doubtful: tuple[Settlement, ...] = ()
        self.doubtful_locks: tuple[LockGrant, ...] = ()
        self.is_ending = False

    @property
    def is_assisting(self) -> bool:
        """Whether another process holds the tasks, and this one only acts for it."""
        return False

    @property
    def id(self) -> str:
        """The incarnation's id, or nothing while this process holds nothing."""
        return self._incarnation.id if self._incarnation else ""

    def incarnation(self) -> Incarnation | None:
        """Whoever the tasks are held by, as this process knows it."""
        return self.own()

    def own(self) -> Incarnation:
        """This process's incarnation, made if need be."""
        with self._mutex:
            if self._incarnation is None:
                if self.is_ending:
                    raise StoreError(_ENDING)
                try:
                    self._folder.make()
                    self._incarnation = self._born()
                except OSError as error:
                    raise StoreUnwritable(
                        f"no lock file can be made in {self._folder.workers} ({error.strerror});"
                        " free some space there, or give this user permission"
                    ) from error
            return self._incarnation

    def _born(self) -> Incarnation:
        incarnation, self._next_id = self._next_id, uuid4().hex
        return Incarnation(self._folder, incarnation)

    def row(self, tx: Transaction, worker: str, now: Instant) -> int:
        """The row to claim under, registered in the claim's own transaction if it is new."""
        if self.is_ending:
            raise StoreError(_ENDING)
        known = self._holders.get(worker)
        if known is not None:
            if tx.value("worker_state", {"seq": known}) != "alive":
                raise DeclaredDead(_DEAD)
            return known
        times = {"now": now.utc_ms, "mono": now.mono_ms}
        return int(tx.value("register_worker", self.own().registration(worker) | times))

    def remember(self, worker: str, row: int, of: Incarnation | None) -> None:
        """A claim committed, and with it the worker's row; unless we began anew meanwhile."""
        with self._mutex:
            if self._incarnation is of:
                self._holders[worker] = row

    def enlist(self, worker: str) -> bool:
        """A worker of this name begins its work; False if one in this process is at it."""
        with self._mutex:
            if worker in self._in_service:
                return False
            self._in_service.add(worker)
            return True

    def retired(self, worker: str) -> int | None:
        """The row of a worker that ended its work; the next claim under its name asks anew."""
        with self._mutex:
            self._in_service.discard(worker)
            return self._holders.pop(worker, None)

    def doubt(self, handed: Sequence[Settlement]) -> None:
        """Leases that may have been handed out to nobody: the next claim gives them back."""
        with self._mutex:
            self.doubtful += tuple(handed)

    def is_settled(self, doubtful: Sequence[Settlement]) -> None:
        """A claim committed, and with it the end of these."""
        if doubtful:
            with self._mutex:
                self.doubtful = tuple(one for one in self.doubtful if one not in doubtful)

    def doubt_locks(self, handed: Sequence[LockGrant]) -> None:
        """The same for named locks: the next one who asks for a lock frees them."""
        with self._mutex:
            self.doubtful_locks += tuple(handed)

    def locks_are_settled(self, doubtful: Sequence[LockGrant]) -> None:
        """A request committed, and with it the end of these."""
        if doubtful:
            with self._mutex:
                kept = (one for one in self.doubtful_locks if one not in doubtful)
                self.doubtful_locks = tuple(kept)

    def end_soon(self) -> str:
        """From now on nobody is handed anything; the incarnation that may hold tasks, or nothing.

        A first claim that is under way has its incarnation already, or gets none any more.
        """
        with self._mutex:
            self.is_ending = True
            return self.id

    def begin_anew(self, declared_dead: Incarnation | None) -> None:
        """After being declared dead: a new incarnation, for only a new one can be alive."""
        if self._incarnation is declared_dead:
            self.end(has_left=False)

    def note(self, grant: Grant) -> bool:
        """Write down that a task's work begins; False when it cannot be noted in the file."""
        return self._incarnation is not None and self._incarnation.lock_file.note(grant)

    def note_memory(self, peak_bytes: int) -> None:
        """Write down how much memory this process has used at most."""
        incarnation = self._incarnation
        if incarnation is not None:
            incarnation.lock_file.note_memory(peak_bytes)

    def forget(self, grants: Sequence[Grant]) -> None:
        """The ends of leases are committed."""
        incarnation = self._incarnation
        if incarnation is not None:
            incarnation.lock_file.clear(grants)

    def end(self, has_left: bool) -> None:
        """A lock file outlives a process that could not say goodbye: free, it says who died."""
        with self._mutex:
            incarnation, self._incarnation = self._incarnation, None
            self._holders.clear()
        if incarnation is None:
            return
        if has_left:
            incarnation.lock_file.remove()
        else:
            incarnation.lock_file.close()

    def abandon(self) -> None:
        """In a forked child: close without unlocking; the lock is the parent's."""
        if self._incarnation is not None:
            self._incarnation.lock_file.abandon()


class Assisting(Holding):
    """Another process's holding, in the hands of the assistant that claims and settles for it.

    Lock file and notes are the principal's own; its row is asked each time whether it still
    counts as alive.
    """

    def __init__(self, folder: SideFolder, principal: Principal) -> None:
        super().__init__(folder)
        self._principal = principal

    @property
    def is_assisting(self) -> bool:
        """Always."""
        return True

    @property
    def id(self) -> str:
        """The principal's incarnation."""
        return self._principal.incarnation

    def incarnation(self) -> None:
        """There is none here to be made."""

    def row(self, tx: Transaction, worker: str, now: Instant) -> int:
        """The principal's row, unless it was declared dead."""
        if tx.value("worker_state", {"seq": self._principal.row}) != "alive":
            raise DeclaredDead(_DEAD)
        return self._principal.row

    def remember(self, worker: str, row: int, of: Incarnation | None) -> None:
        """The row is known from the start."""

    def begin_anew(self, declared_dead: Incarnation | None) -> None:
        """Only the principal can."""
        raise DeclaredDead(_DEAD)
