"""The numbers behind the metrics: read from one snapshot, and summed up so that they last.

Up to a position of the stream all that happened is summed up in metric_rollup; what came behind
is summed up by whoever looks. Serving processes move the position on, from what they have read:
the write lock is held for a few rows, however long the rest was.
"""

from collections.abc import Callable
from typing import NamedTuple

from outlast.clock import Instant
from outlast.domain.metric_marks import Figures, Leased, Mark, Pair, Waiting, with_known_pairs
from outlast.domain.orphans import Patience
from outlast.store.access import Access
from outlast.store.commit.operation import Operation
from outlast.store.counters import add_to_counters
from outlast.store.engine import Sizes
from outlast.store.ops import cursors, stream
from outlast.store.ops.worker_list import WorkerList
from outlast.store.records import Grant, TaskTrace
from outlast.store.transaction import Transaction

FOLDED_AT_ONCE = 20_000
# Below this the sums cost more than they spare whoever looks.
FOLD_WORTH = 5000
_FOLDED = "metrics_folded"
_OWN_COUNTERS = frozenset({_FOLDED, "metrics_fold_upto"})


class Rest(NamedTuple):
    """What happened between two positions, summed up under the pairs that have series."""

    folded: int
    upto: int
    marks: list[Mark]
    new_pairs: list[Pair]


def rest(tx: Transaction, most: int, least: int = 1) -> Rest | None:
    """What is not summed up yet, of so many positions at most; None if there are too few."""
    folded = int(tx.value("counter", {"name": _FOLDED}))
    end = stream.end(tx).pos
    if end - folded < least:
        return None
    upto = min(end, folded + most)
    found = [Mark(*row) for row in tx.rows("metric_rest", {"folded": folded, "upto": upto})]
    known: list[Pair] = [(queue, kind) for queue, kind in tx.rows("metric_pairs")]
    marks, new_pairs = with_known_pairs(found, known)
    return Rest(folded, upto, marks, new_pairs)


def fold(tx: Transaction, done: Rest) -> bool:
    """Store such a sum; False when somebody else was at it meanwhile, and nothing is to be done."""
    if not tx.run("move_metrics_fold", {"folded": done.folded, "upto": done.upto}):
        return False
    tx.run_many(
        "add_metric_pair", [{"queue": queue, "kind": kind} for queue, kind in done.new_pairs]
    )
    tx.run_many("add_to_rollup", [mark._asdict() for mark in done.marks])
    return True


def figures(tx: Transaction, sizes: Sizes, workers: dict[str, int], now: Instant) -> Figures:
    """All that a scrape needs; costs what is unfinished, however much is finished."""
    marks = [Mark(*row) for row in tx.rows("metric_rollup")]
    end = stream.end(tx)
    behind = rest(tx, end.pos)
    marks += behind.marks if behind else []
    return Figures(
        now_ms=now.utc_ms,
        marks=marks,
        waiting=_waiting(tx, now),
        leased=[((queue, kind), Leased(*some)) for queue, kind, *some in tx.rows("metric_leases")],
        paused=[queue for (queue,) in tx.rows("paused_queues")],
        counters={name: value for name, value in tx.rows("counters") if name not in _OWN_COUNTERS},
        enqueued=end.task_seq,
        workers=workers,
        lags={one.name: one.behind for one in cursors.listed(tx, end, now, 0)},
        wal_bytes=sizes.wal_bytes,
        database_bytes=sizes.database_bytes,
    )


def _waiting(tx: Transaction, now: Instant) -> list[tuple[Pair, Waiting]]:
    found: list[tuple[Pair, Waiting]] = [
        ((queue, kind), Waiting(tasks, tasks, since_ms))
        for queue, kind, tasks, since_ms in tx.rows("metric_ready")
    ]
    found += [
        ((queue, kind), Waiting(tasks, due, first_ms if due else None))
        for queue, kind, tasks, due, first_ms in tx.rows("metric_delayed", {"now": now.utc_ms})
    ]
    found += [
        ((queue, kind), Waiting(tasks, 0, None, damaged, held))
        for queue, kind, tasks, damaged, held in tx.rows("metric_parked")
    ]
    return found


def to_the_end() -> bool:
    """Nothing stops it before all is summed up."""
    return True


class Metrics:
    """Figures and traces; what happened is summed up, so that it outlives its rows."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def figures(self, now: Instant, patience: Patience) -> Figures:
        """What metrics are made of, from one consistent read."""
        listed = WorkerList(self._access.presence, now, patience)
        sizes = self._access.engine.sizes()
        return self._access.read("measuring", lambda tx: figures(tx, sizes, listed.states(tx), now))

    def trace_of(self, seq: int) -> TaskTrace | None:
        """Where a task came from, and who was at it last, if anybody traces it."""
        row = self._access.read("reading a trace", lambda tx: tx.row("trace_of", {"seq": seq}))
        return None if row is None else TaskTrace(*row)

    def note_trace_soon(self, grant: Grant, traceparent: str) -> Operation[bool]:
        """The future of a note that this attempt is traced; False if its lease is not current."""
        values = grant._asdict() | {"traceparent": traceparent}
        return self._access.submit("trace", lambda tx: tx.run("note_attempt_trace", values) == 1)

    def fold(self, least: int = FOLD_WORTH, goes_on: Callable[[], bool] = to_the_end) -> int:
        """Store what was counted here, and sum up in steps, none of which holds others up.

        Sums are made of so many positions or more; returns how many were summed up.
        """
        self.store_counts()
        folded = 0
        while goes_on() and (step := self._fold(least)):
            folded += step
        return folded

    def store_counts(self) -> None:
        """Add what this process counted to what is stored, if it is anything."""
        access = self._access
        with access.counts.being_stored(access.engine.write_retries) as numbers:
            if numbers:
                access.write("fold", lambda tx: add_to_counters(tx, numbers))

    def before_leaving(self) -> None:
        """What a process knows and no row shows goes on record."""
        self.store_counts()
        if not self._access.presence.own.is_assisting:
            # One step and no more, for somebody waits for us to leave.
            self._fold(FOLD_WORTH)

    def _fold(self, least: int) -> int:
        found = self._access.read("measuring", lambda tx: rest(tx, FOLDED_AT_ONCE, least))
        if found is None or not self._access.write("fold", lambda tx: fold(tx, found)):
            return 0
        return found.upto - found.folded
