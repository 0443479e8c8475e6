"""The part of the store that keeps metrics and traces: sums that last, and notes of attempts."""

from collections.abc import Callable

from outlast.domain.metric_marks import FENCED_WRITES
from outlast.store.commit.operation import Operation
from outlast.store.measuring import FOLD_WORTH, to_the_end
from outlast.store.ops import metrics
from outlast.store.records import Grant
from outlast.store.sqlite.serving import Serving


class Measuring(Serving):
    """Sums up what happened, so that it stays counted when its rows are gone."""

    def fold_metrics(
        self, least: int = FOLD_WORTH, goes_on: Callable[[], bool] = to_the_end
    ) -> int:
        """Store what was counted here, and sum up in steps, none of which holds others up."""
        self.store_counts()
        folded = 0
        while goes_on() and (step := self._fold(least)):
            folded += step
        return folded

    def _fold(self, least: int) -> int:
        most = metrics.FOLDED_AT_ONCE
        rest = self._read("measuring", lambda tx: metrics.rest(tx, most, least))
        if rest is None or not self._write("fold", lambda tx: metrics.fold(tx, rest)):
            return 0
        return rest.upto - rest.folded

    def _before_leaving(self) -> None:
        super()._before_leaving()
        if not self._holding.is_assisting:
            # One step and no more, for somebody waits for us to leave.
            self._fold(FOLD_WORTH)

    def note_trace_soon(self, grant: Grant, traceparent: str) -> Operation[bool]:
        """The future of a note that this attempt is traced; a stale lease notes nothing."""
        values = grant._asdict() | {"traceparent": traceparent}
        return self._submit("trace", lambda tx: tx.run("note_attempt_trace", values) == 1)

    def _refusals_counted(self, outcome: Callable[[], list[bool]]) -> list[bool]:
        answers = outcome()
        self.tallies.add(FENCED_WRITES, answers.count(False))
        return answers
