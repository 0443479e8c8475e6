"""The questions about metrics and traces, for a store that can be read."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from outlast.clock import Instant
from outlast.domain.metric_marks import Figures
from outlast.domain.orphans import Patience
from outlast.store.ops import metrics
from outlast.store.ops.workers import Roster
from outlast.store.records import TaskTrace
from outlast.store.sqlite.side_folder.side_folder import SideFolder
from outlast.store.sqlite.transaction import Transaction

T = TypeVar("T")


class Reading(Protocol):
    """What the questions below are asked of."""

    _folder: SideFolder

    def _read(self, context: str, query: Callable[[Transaction], T]) -> T: ...
    def _roster(self, now: Instant, patience: Patience) -> Roster: ...


class MetricReading:
    """Figures and traces, each from one consistent read."""

    def figures(self: Reading, now: Instant, patience: Patience) -> Figures:
        """What metrics are made of."""
        roster, folder = self._roster(now, patience), self._folder
        return self._read(
            "measuring", lambda tx: metrics.figures(tx, folder, roster.states(tx), now)
        )

    def trace_of(self: Reading, seq: int) -> TaskTrace | None:
        """Where a task came from, and who was at it last, if anybody traces it."""
        row = self._read("reading a trace", lambda tx: tx.row("trace_of", {"seq": seq}))
        return None if row is None else TaskTrace(*row)
