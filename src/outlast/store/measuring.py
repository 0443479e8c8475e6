"""What a store keeps for metrics and traces: the questions, and the few verbs that write."""

from collections.abc import Callable
from typing import Protocol

from outlast.clock import Instant
from outlast.domain.metric_marks import Figures
from outlast.domain.orphans import Patience
from outlast.store.future import Future
from outlast.store.records import Grant, TaskTrace

# Below this the sums cost more than they spare whoever looks.
FOLD_WORTH = 5000


class MeasureReads(Protocol):
    """What can be asked of a store that was opened only to look."""

    def figures(self, now: Instant, patience: Patience) -> Figures:
        """What metrics are made of, from one consistent read."""
        ...

    def trace_of(self, seq: int) -> TaskTrace | None:
        """Where a task came from, and who was at it last, if anybody traces it."""
        ...


def to_the_end() -> bool:
    """Nothing stops it before all is summed up."""
    return True


class StoreMeasures(Protocol):
    """What needs a store that is served."""

    def note_trace_soon(self, grant: Grant, traceparent: str) -> Future[bool]:
        """The future of a note that this attempt is traced; False if its lease is not current."""
        ...

    def fold_metrics(
        self, least: int = FOLD_WORTH, goes_on: Callable[[], bool] = to_the_end
    ) -> int:
        """Sum up what happened, if it is so many positions or more; how many were summed up.

        What this process counted for itself is stored in any case.
        """
        ...
