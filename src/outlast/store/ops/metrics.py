"""The numbers behind the metrics: read from one snapshot, and summed up so that they last.

Up to a position of the stream all that happened is summed up in metric_rollup; what came behind
is summed up by whoever looks. Serving processes move the position on, from what they have read:
the write lock is held for a few rows, however long the rest was.
"""

import os
from typing import NamedTuple

from outlast.clock import Instant
from outlast.domain.metric_marks import Figures, Leased, Mark, Pair, Waiting, with_known_pairs
from outlast.store.ops import cursors, stream
from outlast.store.sqlite.side_folder.side_folder import SideFolder
from outlast.store.sqlite.transaction import Transaction

FOLDED_AT_ONCE = 20_000
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


def figures(tx: Transaction, folder: SideFolder, workers: dict[str, int], now: Instant) -> Figures:
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
        wal_bytes=_size(f"{folder.database}-wal"),
        database_bytes=_size(str(folder.database)),
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


def _size(path: str) -> int:
    """By its name alone: opening and closing the file would drop this process's locks on it."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
