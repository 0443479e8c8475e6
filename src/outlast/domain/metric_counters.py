"""Counters and histograms out of marks: which marks count for which metric, under which labels."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from outlast.domain.metric_marks import BUCKETS_MS, NO_END_MS, Mark, Pair, Samples, sample

_FINISHED = {
    "completed": "completed", "failed": "failed", "cancelled": "cancelled", "task.taken": "taken",
}  # fmt: skip
_RAN_TO_AN_END = frozenset({"completed", "retry", "permanent_error", "max_retries_exceeded"})
_DECIDED = frozenset({"cancelled", "failed_by_operator"})
_ACTIONS = {"_retry": "retry", "_reset": "pending", "_policy_fail": "fail"}


def counted(marks: Sequence[Mark]) -> Samples:
    """All that only rises, by the names of the metrics."""
    return {
        "outlast_tasks_finished_total": _totals(
            marks, ("queue", "kind", "outcome"),
            lambda mark: (mark.queue, mark.kind, _FINISHED[mark.became])
            if mark.became in _FINISHED else None,
        ),
        "outlast_attempts_failed_total": _totals(
            marks, ("queue", "kind"), lambda mark: _pair(mark) if _has_failed(mark) else None
        ),
        "outlast_attempt_duration_seconds": _histograms(
            marks, ("queue", "kind"), lambda mark: _pair(mark) if _ran_to_an_end(mark) else None
        ),
        "outlast_wait_seconds": _histograms(
            marks, ("queue", "kind"), lambda mark: _pair(mark) if mark.became == "running" else None
        ),
        "outlast_tasks_recovered_total": _totals(marks, ("reason", "action"), _recovered),
        "outlast_leases_lost_total": _totals(marks, ("reason",), _lost),
        "outlast_workers_dead_total": _totals(
            marks, (), lambda mark: () if mark.became == "worker.dead" else None, always=True
        ),
        "outlast_recovery_duration_seconds": _histograms(
            marks, (), lambda mark: () if mark.became == "recovery.completed" else None, always=True
        ),
    }  # fmt: skip


def _pair(mark: Mark) -> Pair:
    return mark.queue, mark.kind


def _ran_to_an_end(mark: Mark) -> bool:
    is_workers_word = mark.was == "running" and mark.actor == "worker"
    return is_workers_word and mark.reason in _RAN_TO_AN_END


def _has_failed(mark: Mark) -> bool:
    return _ran_to_an_end(mark) and mark.became != "completed"


def _recovered(mark: Mark) -> tuple[str, str] | None:
    """The reason as the history has it, taken apart: what happened, and what was done about it."""
    if mark.actor != "recovery" or mark.was != "running" or mark.reason == "released":
        return None
    for end, action in _ACTIONS.items():
        if mark.reason.endswith(end):
            return mark.reason.removesuffix(end), action
    return mark.reason, "fail" if mark.became == "failed" else "pending"


def _lost(mark: Mark) -> tuple[str] | None:
    """A lease ended by another than its holder; a clean leave gives back, and loses nothing."""
    if mark.was != "running" or mark.actor == "worker":
        return None
    if mark.actor == "operator":
        return (mark.reason if mark.reason in _DECIDED else "by_operator",)
    recovered = _recovered(mark)
    return None if recovered is None else (recovered[0],)


Key = Callable[[Mark], "tuple[str, ...] | None"]


def _totals(
    marks: Sequence[Mark], labels: Sequence[str], key: Key, *, always: bool = False
) -> list[dict[str, Any]]:
    totals: dict[tuple[str, ...], int] = {(): 0} if always else {}
    for mark in marks:
        found = key(mark)
        if found is not None:
            totals[found] = totals.get(found, 0) + mark.number
    return [
        sample(count, **dict(zip(labels, values, strict=True)))
        for values, count in sorted(totals.items())
    ]


def _histograms(
    marks: Sequence[Mark], labels: Sequence[str], key: Key, *, always: bool = False
) -> list[dict[str, Any]]:
    """Cumulative buckets, as Prometheus has them; marks without a duration are no part of it."""
    counts: dict[tuple[str, ...], dict[int, int]] = defaultdict(lambda: defaultdict(int))
    sums_ms: dict[tuple[str, ...], int] = defaultdict(int)
    if always:
        counts[()] = defaultdict(int)
    for mark in marks:
        found = key(mark) if mark.upto_ms else None
        if found is not None:
            counts[found][mark.upto_ms] += mark.number
            sums_ms[found] += mark.sum_ms
    return [
        {"labels": dict(zip(labels, values, strict=True)), **_spread(counts[values])}
        | {"sum": sums_ms[values] / 1000}
        for values in sorted(counts)
    ]


def _spread(counts: Mapping[int, int]) -> dict[str, Any]:
    buckets: dict[str, int] = {}
    reached = 0
    for upto_ms in (*BUCKETS_MS, NO_END_MS):
        reached += counts.get(upto_ms, 0)
        buckets["+Inf" if upto_ms == NO_END_MS else str(upto_ms / 1000)] = reached
    return {"buckets": buckets, "count": reached}
