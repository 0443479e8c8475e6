"""The store in numbers, by index as far as one knows them: counts, the backlog, statistics."""

from outlast.clock import Instant
from outlast.domain.lifecycle import Status
from outlast.domain.stats import Backlog, CheckpointFigures, LeaseFigures, Stats, TaskFigures
from outlast.domain.task import utc_of
from outlast.host import kernel
from outlast.store.ops.orphans import ALL_KINDS
from outlast.store.sqlite.transaction import Transaction, Values

STALE_LEASE_MS = 120_000
MOST_CHECKPOINTS = 10
MAX_SILENT = 1000

_IN_ORDER = (Status.PENDING, Status.RUNNING, Status.COMPLETED, Status.FAILED, Status.CANCELLED)


def counts(tx: Transaction, queue: str | None) -> dict[str, int]:
    """How many tasks rest in each status."""
    name = "counts_all" if queue is None else "counts_of_queue"
    row = tx.row(name, {"queue": queue}) or ()
    return {status.value: count for status, count in zip(_IN_ORDER, row, strict=True)}


def backlog(tx: Transaction, queue: str | None, limit: int) -> Backlog:
    """What is unfinished; costs what is unfinished, however much is finished."""
    name = "unfinished_all" if queue is None else "unfinished_of_queue"
    groups = tx.rows("unfinished_groups", {"queue": queue, "limit": limit})
    return Backlog(tx.value(name, {"queue": queue}), tuple(group for (group,) in groups))


def stats(tx: Transaction, now: Instant, stale_ms: int) -> Stats:
    """The monitoring queries of the schema seed, and who is silent."""
    silence = {
        "now": now.utc_ms,
        "mono": now.mono_ms,
        "stale_ms": stale_ms,
        "boot_id": kernel.boot_id(),
        "limit": MAX_SILENT,
    }
    return Stats(
        at=utc_of(now.utc_ms),
        tasks=tuple(
            TaskFigures(kind, Status(status), count, hours)
            for kind, status, count, hours in tx.rows("task_figures", {"now": now.utc_ms})
        ),
        leases=leases(tx, now),
        checkpoints=tuple(
            CheckpointFigures(task_id, group, count, last, utc_of(first_at), utc_of(last_at))
            for task_id, group, count, last, first_at, last_at in tx.rows(
                "checkpoint_figures", {"limit": MOST_CHECKPOINTS}
            )
        ),
        silent_workers=tuple(name for (name,) in tx.rows("silent_workers", silence)),
        paused_queues=tuple(paused(tx)),
    )


def leases(tx: Transaction, now: Instant, kinds: Values = ALL_KINDS) -> LeaseFigures:
    """The leases that are out; whether one's time is over says the clock it runs on."""
    row = tx.row("lease_figures", {"now": now.utc_ms, "stale_ms": STALE_LEASE_MS})
    active, stale, mean_minutes = row or (0, 0, None)
    values = {"now": now.utc_ms, "mono": now.mono_ms, "boot_id": kernel.boot_id()}
    return LeaseFigures(active, stale, mean_minutes, tx.value("leases_ran_out", values | kinds))


def paused(tx: Transaction) -> list[str]:
    """The queues that hand out nothing, by name."""
    return sorted(name for (name,) in tx.rows("paused_queues"))
