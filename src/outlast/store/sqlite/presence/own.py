"""This process as a holder of tasks: its incarnation, its names, and what it has begun.

A signal handler on the main thread may use the store wherever it strikes, and then it waits for
the committer. So the committer takes no mutex here: what it reads and adds is atomic in C.
"""

import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from uuid import uuid4

from outlast.clock import Instant
from outlast.domain.locks import LockGrant
from outlast.errors import DeclaredDead, StoreError, StoreUnwritable
from outlast.store.records import Grant, Principal, Settlement
from outlast.store.sqlite.presence.peers import Incarnation
from outlast.store.sqlite.side_folder.side_folder import SideFolder
from outlast.store.transaction import Transaction

_ENDING = "this store is being closed; open it again"
_DEAD = "another process took this one for dead and put its tasks back; it begins anew"
_STRUCK = (
    "the store was asked for work while this same thread asks for the first time, by a signal"
    " handler or a finalizer; let the main program do that instead"
)


class OwnPresence:
    """Made when the process first holds something: its lock file is there before its row."""

    def __init__(self, folder: SideFolder) -> None:
        self._folder = folder
        self.session_id = uuid4().hex
        """The process's opening of the file; its first incarnation has the same id."""
        self._next_id = self.session_id
        self._incarnation: Incarnation | None = None
        self._in_service: dict[str, object] = {}
        self._mutex = threading.RLock()
        self._is_making = False
        self.doubtful: deque[Settlement] = deque()
        self.doubtful_locks: deque[LockGrant] = deque()
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
        return self._incarnation or self._made()

    def _made(self) -> Incarnation:
        with self._mutex:
            if self._is_making:
                raise StoreError(_STRUCK)
            if self._incarnation is None:
                self._is_making = True
                try:
                    self._incarnation = self._born()
                finally:
                    self._is_making = False
            if self.is_ending:
                # A signal handler has closed the store meanwhile.
                self.end(has_left=True)
                raise StoreError(_ENDING)
            return self._incarnation

    def _born(self) -> Incarnation:
        if self.is_ending:
            raise StoreError(_ENDING)
        incarnation, self._next_id = self._next_id, uuid4().hex
        try:
            self._folder.make()
            return Incarnation(self._folder, incarnation)
        except OSError as error:
            raise StoreUnwritable(
                f"no lock file can be made in {self._folder.workers} ({error.strerror});"
                " free some space there, or give this user permission"
            ) from error

    def row(self, tx: Transaction, worker: str, now: Instant) -> int:
        """The row to claim under, registered in the claim's own transaction if it is new."""
        if self.is_ending:
            raise StoreError(_ENDING)
        incarnation = self._incarnation
        if incarnation is None:
            # It was ended after the caller asked for it, and the caller makes the next one.
            raise DeclaredDead(_DEAD)
        known = incarnation.rows.get(worker)
        if known is not None:
            if tx.value("worker_state", {"seq": known}) != "alive":
                raise DeclaredDead(_DEAD)
            return known
        times = {"now": now.utc_ms, "mono": now.mono_ms}
        return int(tx.value("register_worker", incarnation.registration(worker) | times))

    def remember(self, worker: str, row: int, of: object) -> None:
        """A claim committed, and with it the worker's row; unless we began anew meanwhile."""
        assert isinstance(of, Incarnation)
        of.rows[worker] = row

    def principal(self, worker: str, row: int) -> Principal:
        """This process as a worker of that name, for an assistant to act for."""
        incarnation = self.own()
        return Principal(worker, row, incarnation.id, incarnation.lock_file.descriptor)

    def enlist(self, worker: str) -> bool:
        """A worker of this name begins its work; False if one in this process is at it."""
        this = object()
        return self._in_service.setdefault(worker, this) is this

    def retired(self, worker: str) -> int | None:
        """The row of a worker that ended its work; the next claim under its name asks anew."""
        incarnation = self._incarnation
        row = None if incarnation is None else incarnation.rows.pop(worker, None)
        # In this order: the next worker of this name must not go on with this one's row.
        self._in_service.pop(worker, None)
        return row

    def doubt(self, handed: Sequence[Settlement]) -> None:
        """Leases that may have been handed out to nobody: the next claim gives them back."""
        self.doubtful.extend(handed)

    def is_settled(self, doubtful: Sequence[Settlement]) -> None:
        """A claim committed, and with it the end of these."""
        for one in doubtful:
            with suppress(ValueError):
                self.doubtful.remove(one)

    def doubt_locks(self, handed: Sequence[LockGrant]) -> None:
        """The same for named locks: the next one who asks for a lock frees them."""
        self.doubtful_locks.extend(handed)

    def locks_are_settled(self, doubtful: Sequence[LockGrant]) -> None:
        """A request committed, and with it the end of these."""
        for one in doubtful:
            with suppress(ValueError):
                self.doubtful_locks.remove(one)

    def end_soon(self) -> str:
        """From now on nobody is handed anything; the incarnation that may hold tasks, or nothing.

        A first claim that is under way has its incarnation already, or gets none any more.
        """
        with self._mutex:
            self.is_ending = True
            return self.id

    def begin_anew(self, declared_dead: object) -> None:
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


class PrincipalsPresence(OwnPresence):
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

    def remember(self, worker: str, row: int, of: object) -> None:
        """The row is known from the start."""

    def begin_anew(self, declared_dead: object) -> None:
        """Only the principal can."""
        raise DeclaredDead(_DEAD)
