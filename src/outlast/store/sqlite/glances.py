"""Quick questions of those who watch a store: its leases, its paused queues, ids by their start."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from outlast.clock import Instant
from outlast.domain.stats import LeaseFigures
from outlast.store.ops import stats
from outlast.store.ops.orphans import ALL_KINDS, kinds_concerned
from outlast.store.records import RecoveryPolicy
from outlast.store.sqlite.transaction import Transaction

T = TypeVar("T")

_BEYOND_ALL = "\U0010ffff"


class Reading(Protocol):
    """What the questions below are asked of."""

    def _read(self, context: str, query: Callable[[Transaction], T]) -> T: ...


class Glances:
    """The questions, for a store that can be read; none of them reads all tasks."""

    def paused_queues(self: Reading) -> list[str]:
        """The queues that hand out nothing, by name."""
        return self._read("reading queues", stats.paused)

    def leases(self: Reading, now: Instant, policy: RecoveryPolicy | None = None) -> LeaseFigures:
        """How many leases are out, how many of them were not renewed lately or have run out."""
        kinds = ALL_KINDS if policy is None else kinds_concerned(policy)
        return self._read("counting leases", lambda tx: stats.leases(tx, now, kinds))

    def ids_beginning(self: Reading, start: str, limit: int) -> list[str]:
        """The ids of tasks that begin so, in their order."""
        values = {"first": start, "beyond": start + _BEYOND_ALL, "limit": limit}
        rows = self._read("looking for ids", lambda tx: tx.rows("ids_beginning", values))
        return [task_id for (task_id,) in rows]
