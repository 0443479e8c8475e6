"""Workers: their beats, their coming and going, and the list of them."""

from collections.abc import Callable, Sequence

from outlast.clock import Instant
from outlast.domain import codec
from outlast.domain.metric_marks import FENCED_WRITES
from outlast.domain.orphans import Patience
from outlast.domain.task import Task
from outlast.domain.worker import WorkerInfo, WorkerState
from outlast.errors import DeclaredDead
from outlast.logs import logger
from outlast.store.access import Access
from outlast.store.counters import add_to_counters
from outlast.store.ops.leases import renew_leases
from outlast.store.ops.locks.rows import leave_all_of
from outlast.store.ops.settle import GIVE_BACK, TaskRow, move
from outlast.store.ops.worker_list import WorkerList
from outlast.store.records import Grant, Holder, Principal, Ticking
from outlast.store.topics import ANYBODY
from outlast.store.transaction import Transaction, Values

log = logger("outlast.store")


class Workers:
    """Says of a worker that it lives and what it is at, and judges those of others."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._read = access.read

    def beat(
        self,
        worker: str,
        grants: Sequence[tuple[Grant, int]],
        now: Instant,
        *,
        serves: str | None = None,
        stuck: str | None = None,
        progress: str | None = None,
        peak_memory_bytes: int | None = None,
        clock: Ticking | None = None,
    ) -> list[bool]:
        """Date the worker's row and push its leases out, each by its own length."""
        values = {
            "serves": serves,
            "stuck": stuck,
            "progress": progress,
            "peak_memory_bytes": peak_memory_bytes,
        }

        with self._access.counts.being_stored(self._access.engine.write_retries) as numbers:

            def operation(tx: Transaction, row: int, moment: Instant) -> list[bool]:
                tx.run("beat_worker", values | _moment(row, moment))
                add_to_counters(tx, numbers)
                return renew_leases(tx, grants, moment)

            answers = self._as_worker(worker, now, clock, operation)
        self._access.counts.add(FENCED_WRITES, answers.count(False))
        return answers

    def heartbeat(
        self, worker: str, task_ids: Sequence[str], progress: str | None, now: Instant
    ) -> None:
        """Date the worker's row and note what it says of itself; renews nothing."""
        values = {"task_ids": codec.encode(list(task_ids), "task_ids"), "progress": progress}

        def operation(tx: Transaction, row: int, moment: Instant) -> list[bool]:
            tx.run("beat_by_hand", values | _moment(row, moment))
            return []

        self._as_worker(worker, now, None, operation)

    def _as_worker(
        self,
        worker: str,
        now: Instant,
        clock: Ticking | None,
        operation: Callable[[Transaction, int, Instant], list[bool]],
    ) -> list[bool]:
        """Run it on the row of this process under that name, which is made if need be.

        A row that was declared dead stays so: the process begins anew, with a row of its own.
        """
        own = self._access.presence.own

        def on_its_row(tx: Transaction) -> tuple[int, list[bool]]:
            moment = clock() if clock else now
            row = own.row(tx, worker, moment)
            return row, operation(tx, row, moment)

        while True:
            incarnation = own.incarnation()
            try:
                row, answers = self._access.write("beat", on_its_row)
            except DeclaredDead:
                own.begin_anew(incarnation)
                log.warning("this process was declared dead by another and begins anew")
                continue
            own.remember(worker, row, incarnation)
            return answers

    def principal(self, worker: str, now: Instant) -> Principal:
        """This process as a worker of that name, registered, for an assistant to act for."""
        own = self._access.presence.own
        while True:
            incarnation = own.incarnation()
            try:
                row = self._access.write("claim", lambda tx: own.row(tx, worker, now))
            except DeclaredDead:
                own.begin_anew(incarnation)
                continue
            own.remember(worker, row, incarnation)
            return own.principal(worker, row)

    def enlist(self, worker: str) -> bool:
        """A worker of this name begins its work; False if one in this process is at it."""
        return self._access.presence.own.enlist(worker)

    def retire(self, worker: str, now: Instant) -> None:
        """A worker of this process has ended its work; what it still holds is put back."""
        row = self._access.presence.own.retired(worker)

        def operation(tx: Transaction) -> None:
            held = [TaskRow(*one) for one in tx.rows("situations_of_row", {"row": row})]
            move(tx, [(task, GIVE_BACK, None) for task in held], now)
            tx.run("retire_worker", {"row": row, "now": now.utc_ms})

        if row is not None:
            self._access.write("beat", operation, wakes=ANYBODY)

    def leave(self, now: Instant, run_id: int | None) -> None:
        """This process says goodbye; no claim comes after this one transaction."""
        own = self._access.presence.own
        if own.is_assisting:
            return
        incarnation = own.end_soon()

        def operation(tx: Transaction) -> None:
            values = {"incarnation": incarnation, "limit": -1}
            held = [TaskRow(*row) for row in tx.rows("situations_of_incarnation", values)]
            move(tx, [(task, GIVE_BACK, None) for task in held], now)
            leave_all_of(tx, incarnation)
            ending = {"incarnation": incarnation, "state": "left", "now": now.utc_ms}
            tx.run("end_worker", ending)
            session = {"id": run_id, "incarnation": own.session_id}
            tx.run("end_session", session | {"now": now.utc_ms})

        if incarnation or run_id:
            self._access.write("close", operation, wakes=ANYBODY)

    def holds_anything(self) -> bool:
        """Whether a task is in the hands of this process."""
        own = {"incarnation": self._access.presence.own_id, "limit": 1}
        found = self._read("leaving", lambda tx: tx.row("situations_of_incarnation", own))
        return found is not None

    def note_memory(self, peak_bytes: int) -> None:
        """Record how much memory this process has used at most; it survives kill -9."""
        self._access.presence.own.note_memory(peak_bytes)

    def newest(self, now: Instant, patience: Patience, limit: int) -> list[WorkerInfo]:
        """Workers of all times, newest first, each judged now."""
        listed = self._list(now, patience)
        return self._read("reading workers", lambda tx: listed.newest(tx, limit))

    def living(self, now: Instant, patience: Patience, name: str | None) -> list[WorkerInfo]:
        """The workers that are alive or stale, perhaps of one name."""
        listed = self._list(now, patience)
        found = self._read("reading workers", lambda tx: listed.living(tx, name))
        return [one for one in found if one.state is not WorkerState.DEAD]

    def holder_of(self, task: Task, now: Instant, patience: Patience) -> Holder | None:
        """Who holds a running task, judged now."""
        row = self._read("reading a holder", lambda tx: tx.row("holder_of", {"id": task.id}))
        return None if row is None else self._list(now, patience).holder(row)

    def _list(self, now: Instant, patience: Patience) -> WorkerList:
        return WorkerList(self._access.presence, now, patience)


def _moment(row: int, moment: Instant) -> Values:
    return {"row": row, "now": moment.utc_ms, "mono": moment.mono_ms}
