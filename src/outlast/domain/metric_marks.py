"""What metrics are made of: marks of what happened, summed up alike, and what is unfinished now."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

# How far upwards each bucket of a histogram reaches; the table metric_buckets holds the same.
BUCKETS_MS = (
    10, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000,
    14_400_000, 86_400_000,
)  # fmt: skip
NO_END_MS = (1 << 63) - 1
# So many pairs of queue and kind have series of their own; the triggers say the same.
MOST_PAIRS = 500
MOST_SUBSCRIBERS = 100
OTHER = "other"

FENCED_WRITES = "fenced_writes"
BUSY_RETRIES = "busy_retries"

Pair = tuple[str, str]
Samples = dict[str, list[dict[str, Any]]]


class Mark(NamedTuple):
    """Some things that happened alike: what became of what, why, by whom, within which bucket."""

    queue: str
    kind: str
    was: str
    became: str
    reason: str
    actor: str
    upto_ms: int
    number: int
    sum_ms: int
    first_pos: int = 0


class Waiting(NamedTuple):
    """The pending tasks of one pair: all, those that could be claimed, since when the oldest."""

    tasks: int
    ready: int
    ready_since_ms: int | None
    damaged: int = 0
    held: int = 0


class Leased(NamedTuple):
    """The running tasks of one pair: how many, the oldest lease, the longest silence."""

    tasks: int
    acquired_ms: int
    beat_ms: int


class Figures(NamedTuple):
    """All that a scrape reads, from one consistent snapshot."""

    now_ms: int
    marks: Sequence[Mark]
    waiting: Sequence[tuple[Pair, Waiting]]
    leased: Sequence[tuple[Pair, Leased]]
    paused: Sequence[str]
    counters: Mapping[str, int]
    enqueued: int
    workers: Mapping[str, int]
    lags: Mapping[str, int]
    wal_bytes: int
    database_bytes: int


def with_known_pairs(marks: Sequence[Mark], known: Iterable[Pair]) -> tuple[list[Mark], list[Pair]]:
    """These marks under the pairs that have series of their own, and which of those are new.

    The first that came have them, so that a counter never moves from one series to another.
    """
    first: dict[Pair, int] = {}
    for mark in marks:
        pair = mark.queue, mark.kind
        first[pair] = min(mark.first_pos, first.get(pair, mark.first_pos))
    own = set(known)
    new = sorted(first.keys() - own, key=first.__getitem__)[: max(0, MOST_PAIRS - len(own))]
    own.update(new)
    return [
        mark if (mark.queue, mark.kind) in own else mark._replace(queue=OTHER, kind=OTHER)
        for mark in marks
    ], new


def sample(value: float, **labels: str) -> dict[str, Any]:
    """One value of a metric."""
    return {"labels": labels, "value": value}
