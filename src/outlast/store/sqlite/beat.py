"""Signs of life: a worker's beat, and the renewal of its leases in the same transaction."""

from collections.abc import Callable, Sequence

from outlast.clock import Instant
from outlast.domain import codec
from outlast.domain.metric_marks import FENCED_WRITES
from outlast.errors import DeclaredDead
from outlast.logs import logger
from outlast.store.base import Ticking
from outlast.store.ops.counters import add_to_counters
from outlast.store.ops.leases import renew_leases
from outlast.store.records import Grant
from outlast.store.sqlite.serving import Serving
from outlast.store.sqlite.transaction import Transaction, Values

log = logger("outlast.store")


class Beating(Serving):
    """The part of the store that says of a worker that it lives, and what it is at."""

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

        with self.tallies.being_stored(self.retries()) as numbers:

            def operation(tx: Transaction, row: int, moment: Instant) -> list[bool]:
                tx.run("beat_worker", values | _moment(row, moment))
                add_to_counters(tx, numbers)
                return renew_leases(tx, grants, moment)

            answers = self._as_worker(worker, now, clock, operation)
        self.tallies.add(FENCED_WRITES, answers.count(False))
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
        holding = self._holding

        def on_its_row(tx: Transaction) -> tuple[int, list[bool]]:
            moment = clock() if clock else now
            row = holding.row(tx, worker, moment)
            return row, operation(tx, row, moment)

        while True:
            incarnation = holding.incarnation()
            try:
                row, answers = self._write("beat", on_its_row)
            except DeclaredDead:
                holding.begin_anew(incarnation)
                log.warning("this process was declared dead by another and begins anew")
                continue
            holding.remember(worker, row, incarnation)
            return answers


def _moment(row: int, moment: Instant) -> Values:
    return {"row": row, "now": moment.utc_ms, "mono": moment.mono_ms}
