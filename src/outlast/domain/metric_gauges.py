"""Gauges out of what is unfinished now, and of finished tasks without counting their rows."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from outlast.domain.metric_marks import MOST_PAIRS, OTHER, Figures, Leased, Pair, Samples, sample


def standing(figures: Figures) -> Samples:
    """All that rises and falls, by the names of the metrics."""
    own = _own_pairs(figures)
    depth, since = _queues(figures, own)
    now_ms = figures.now_ms
    leased = _merged(figures.leased, own, _of_both_leases)
    waiting = [one for _, one in figures.waiting]
    return {
        "outlast_tasks": _resting(figures, own),
        "outlast_queue_depth": [sample(n, queue=queue) for queue, n in sorted(depth.items())],
        "outlast_queue_oldest_ready_seconds": [
            sample(_seconds(now_ms, at), queue=queue) for queue, at in sorted(since.items())
        ],
        "outlast_queue_paused": [
            sample(1, queue=name) for name in sorted(figures.paused)[:MOST_PAIRS]
        ],
        "outlast_tasks_quarantined": [
            sample(sum(one.damaged for one in waiting), reason="damaged"),
            sample(sum(one.held for one in waiting), reason="held"),
        ],
        "outlast_oldest_lease_seconds": [
            sample(_seconds(now_ms, one.acquired_ms), queue=queue, kind=kind)
            for (queue, kind), one in sorted(leased.items())
        ],
        "outlast_longest_lease_silence_seconds": [
            sample(_seconds(now_ms, one.beat_ms), queue=queue, kind=kind)
            for (queue, kind), one in sorted(leased.items())
        ],
    }


def _seconds(now_ms: int, since_ms: int) -> float:
    return max(0, now_ms - since_ms) / 1000


def _own_pairs(figures: Figures) -> set[Pair]:
    """The pairs that are named: those that ever moved, then the largest of the others."""
    own = {(mark.queue, mark.kind) for mark in figures.marks}
    sizes: dict[Pair, int] = defaultdict(int)
    for pair, waiting in figures.waiting:
        sizes[pair] += waiting.tasks
    for pair, leased in figures.leased:
        sizes[pair] += leased.tasks
    new = sorted(sizes.keys() - own, key=lambda pair: (-sizes[pair], pair))
    return own | set(new[: max(0, MOST_PAIRS - len(own))])


def _merged(
    found: Iterable[tuple[Pair, Any]], own: set[Pair], together: Callable[[Any, Any], Any]
) -> dict[Pair, Any]:
    merged: dict[Pair, Any] = {}
    for pair, some in found:
        shown = pair if pair in own else (OTHER, OTHER)
        merged[shown] = together(merged[shown], some) if shown in merged else some
    return merged


def _of_both_leases(one: Leased, other: Leased) -> Leased:
    return Leased(
        one.tasks + other.tasks,
        min(one.acquired_ms, other.acquired_ms),
        min(one.beat_ms, other.beat_ms),
    )


def _queues(figures: Figures, own: set[Pair]) -> tuple[dict[str, int], dict[str, int]]:
    """How many tasks of each queue could be claimed, and since when the oldest of them."""
    depth: dict[str, int] = {queue: 0 for queue, _ in own if queue}
    named = frozenset(depth)
    since: dict[str, int] = {}
    for (name, _), some in figures.waiting:
        # By its own name although some of its kinds have none: it must not look emptier than it is.
        queue = name if name in named else OTHER
        depth[queue] = depth.get(queue, 0) + some.ready
        if some.ready and some.ready_since_ms is not None:
            since[queue] = min(some.ready_since_ms, since.get(queue, some.ready_since_ms))
    return depth, since


_FINAL = ("completed", "failed", "cancelled")


def _resting(figures: Figures, own: set[Pair]) -> list[dict[str, Any]]:
    """Of finished tasks, those that became so less those that were removed: no row is counted."""
    counts: dict[tuple[str, str, str], int] = defaultdict(int)
    for status, found in (("pending", figures.waiting), ("running", figures.leased)):
        for (queue, kind), some in _merged(found, own, _of_both_counts).items():
            counts[queue, kind, status] += some.tasks
    for mark in figures.marks:
        if mark.became in _FINAL:
            counts[mark.queue, mark.kind, mark.became] += mark.number
        if mark.was in _FINAL:
            counts[mark.queue, mark.kind, mark.was] -= mark.number
    return [
        sample(count, queue=queue, kind=kind, status=status)
        for (queue, kind, status), count in sorted(counts.items())
    ]


def _of_both_counts(one: Any, other: Any) -> Any:
    return one._replace(tasks=one.tasks + other.tasks)
