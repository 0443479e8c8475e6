"""The part of the Store protocol that puts back what the dead have left, and keeps record of it."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from outlast.clock import Instant
from outlast.domain.operator_acts import Signature
from outlast.domain.recovery import RecoveryReport
from outlast.store.records import Batch, Death, Healed, Opened, RecoveryPolicy, RunEnd, RunStart


class StoreHeals(Protocol):
    """What recovery asks of a store that is opened to serve."""

    healed_at_mono_ms: int | None
    """When a claim last looked for the dead, for all who share this store."""

    def heal(
        self,
        now: Instant,
        policy: RecoveryPolicy,
        *,
        run_id: int | None = None,
        tell: Callable[[Batch], None] | None = None,
        stopped: Callable[[Healed], None] | None = None,
        is_thorough: bool = False,
    ) -> Healed:
        """Put back the tasks of holders that are gone or whose leases ran out.

        `tell` hears of each committed batch, and may raise to stop between two; if anything stops
        the pass, `stopped` hears how far it went. A thorough pass also looks for running tasks
        that nobody holds.
        """
        ...

    def reclaim(
        self, now: Instant, policy: RecoveryPolicy, silent_ms: int, is_forced: bool,
        by: Signature | None = None,
    ) -> int:  # fmt: skip
        """Take back what was silent for so long, by force from the living too; how many tasks."""
        ...

    def declare_dead(
        self, incarnation: str, now: Instant, policy: RecoveryPolicy, by: Signature, is_forced: bool
    ) -> Death | None:
        """Bury a worker by somebody's word, and put back what it held.

        None if it has ended or been heard of meanwhile; InvalidInput if it is alive, unless forced.
        """
        ...

    @property
    def opened(self) -> Opened:
        """How this process found the store."""
        ...

    @property
    def is_on_record(self) -> bool:
        """Whether the run of this process's opening is over."""
        ...

    def recovering(self) -> AbstractContextManager[None]:
        """One process at a time; the others wait, and find nothing left to do."""
        ...

    def begin_run(self, start: RunStart, now: Instant, is_opening: bool) -> int:
        """Begin a run, on record with its first change; that of an opening is the session's."""
        ...

    def end_run(self, run_id: int, done: RunEnd, now: Instant) -> RecoveryReport:
        """Put on record what came of it, and return that record."""
        ...
