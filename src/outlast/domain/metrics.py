"""What the store's numbers are called outside: from figures to named metrics, without a clock."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from outlast.domain.metric_counters import counted
from outlast.domain.metric_gauges import standing
from outlast.domain.metric_marks import (
    BUSY_RETRIES,
    FENCED_WRITES,
    MOST_SUBSCRIBERS,
    Figures,
    Samples,
    sample,
)

Kind = Literal["counter", "gauge", "histogram"]


class Described(NamedTuple):
    """What a metric is, before it has values."""

    kind: Kind
    labels: tuple[str, ...]
    help: str


METRICS: Mapping[str, Described] = {
    "outlast_store_ok": Described("gauge", (), "1 if the store could be read, else 0."),
    "outlast_tasks": Described(
        "gauge", ("queue", "kind", "status"), "Tasks that rest in a status now."
    ),
    "outlast_tasks_enqueued_total": Described("counter", (), "Tasks that were ever stored."),
    "outlast_tasks_finished_total": Described(
        "counter", ("queue", "kind", "outcome"),
        "Tasks that were completed, failed for good, were cancelled or taken.",
    ),
    "outlast_attempts_failed_total": Described(
        "counter", ("queue", "kind"), "Executions that ended in an error, retried or not."
    ),
    "outlast_attempt_duration_seconds": Described(
        "histogram", ("queue", "kind"), "From claim to the end, of executions that ran to one."
    ),
    "outlast_wait_seconds": Described(
        "histogram", ("queue", "kind"), "How long tasks were ready before their first claim."
    ),
    "outlast_queue_depth": Described(
        "gauge", ("queue",), "Tasks that are ready to be claimed, also those of a paused queue."
    ),
    "outlast_queue_oldest_ready_seconds": Described(
        "gauge", ("queue",), "How long the oldest task that could be claimed has waited."
    ),
    "outlast_queue_paused": Described("gauge", ("queue",), "1 for each queue that is paused."),
    "outlast_tasks_quarantined": Described(
        "gauge", ("reason",), "Tasks set aside: damaged, or held until recovery is approved."
    ),
    "outlast_tasks_recovered_total": Described(
        "counter", ("reason", "action"), "Orphans that recovery acted on, why and how."
    ),
    "outlast_leases_lost_total": Described(
        "counter", ("reason",), "Leases that were taken from their holders."
    ),
    "outlast_oldest_lease_seconds": Described(
        "gauge", ("queue", "kind"), "Age of the oldest current lease."
    ),
    "outlast_longest_lease_silence_seconds": Described(
        "gauge", ("queue", "kind"), "Longest time since the holder of a current lease renewed it."
    ),
    "outlast_fenced_writes_total": Described(
        "counter", (), "Writes of workers that were refused because the lease was not current."
    ),
    "outlast_busy_retries_total": Described(
        "counter", (), "Times a writer found the write lock taken and tried again."
    ),
    "outlast_workers": Described("gauge", ("state",), "Workers that have not left, as judged now."),
    "outlast_workers_dead_total": Described("counter", (), "Workers that were found dead."),
    "outlast_recovery_duration_seconds": Described(
        "histogram", (), "How long recovery runs took; their count is the number of runs."
    ),
    "outlast_subscriber_lag_events": Described(
        "gauge", ("subscriber",), "Events that a named subscriber still has ahead of it."
    ),
    "outlast_wal_bytes": Described("gauge", (), "Size of the write-ahead log."),
    "outlast_database_bytes": Described("gauge", (), "Size of the main file."),
}  # fmt: skip


def metrics(figures: Figures) -> dict[str, Any]:
    """Every metric by name, with its type, its help and its samples."""
    samples = counted(figures.marks) | standing(figures) | _single(figures)
    return {
        name: {"type": about.kind, "help": about.help, "samples": samples.get(name, [])}
        for name, about in METRICS.items()
    }


def unreadable() -> dict[str, Any]:
    """What is left to say of a store that cannot be read."""
    about = METRICS["outlast_store_ok"]
    return {
        "outlast_store_ok": {"type": about.kind, "help": about.help, "samples": [sample(0)]},
    }


def _single(figures: Figures) -> Samples:
    """What has one value, or a few of fixed names."""
    values = {
        "outlast_store_ok": 1,
        "outlast_tasks_enqueued_total": figures.enqueued,
        "outlast_fenced_writes_total": figures.counters.get(FENCED_WRITES, 0),
        "outlast_busy_retries_total": figures.counters.get(BUSY_RETRIES, 0),
        "outlast_wal_bytes": figures.wal_bytes,
        "outlast_database_bytes": figures.database_bytes,
    }
    samples: Samples = {name: [sample(value)] for name, value in values.items()}
    samples["outlast_workers"] = [
        sample(count, state=state) for state, count in sorted(figures.workers.items())
    ]
    most = sorted(figures.lags.items(), key=lambda one: (-one[1], one[0]))[:MOST_SUBSCRIBERS]
    samples["outlast_subscriber_lag_events"] = [
        sample(lag, subscriber=name) for name, lag in sorted(most)
    ]
    return samples
