"""Writes a worker's reports to its store process: what ended, and how much more it takes."""

from outlast.domain.lifecycle import Outcome
from outlast.worker.jobs import Jobs
from outlast.worker.messages import Proof, Report
from outlast.worker.prefetch import PrefetchPace


class ReportWriter:
    """Remembers what the store process was told, and so what is new to it."""

    def __init__(self, jobs: Jobs, pace: PrefetchPace) -> None:
        self._jobs = jobs
        self._pace = pace
        self._handed_in_all = 0
        self._takes_in_all = 0
        self._told: tuple[str | None, str | None] = (None, None)
        self._excluded: list[int] = []
        self.dropped: list[Proof] = []
        """Leases given up here, of which the store process does not know yet."""

    def handed(self, count: int) -> None:
        """Count tasks that have come from this store process."""
        self._handed_in_all += count

    def first_report(self, now: float) -> Report:
        """All that a new store process must know.

        What it is not told of it takes for its predecessor's strays. What ends between the two
        steps is named twice rather than not at all.
        """
        self._handed_in_all = self._takes_in_all = 0
        self._jobs.offer_again()
        held = self._jobs.held()
        report = self.report(now)
        report.held = held
        return report

    def room(self, free_slots: int) -> int:
        """As many as there are slots, and what is likely done in a moment beyond that."""
        wanted = free_slots + self._pace.ahead() - len(self._jobs.open)
        return max(0, wanted) if free_slots else 0

    def has_news(self, room: int, is_stopping: bool) -> bool:
        """Whether the store process should know something, though nothing has ended."""
        jobs = self._jobs
        unused = self._takes_in_all - self._handed_in_all
        return (
            (room > unused and unused < max(1, (room + len(jobs.open)) // 4))
            or (room == 0 and unused > 0 and is_stopping)
            or bool(self.dropped)
            or jobs.ignoring() != self._excluded
            or (jobs.stuck(), jobs.progress()) != self._told
        )

    def report(self, now: float) -> Report:
        """What there is to tell at this moment."""
        jobs = self._jobs
        self._told = jobs.stuck(), jobs.progress()
        dropped, self.dropped = self.dropped, []
        completed, endings = jobs.gather(now)
        released = sum(one.outcome is Outcome.RELEASE for one in endings)
        self._pace.ended(len(completed) + len(endings) - released, now)
        self._excluded = jobs.ignoring()
        return Report(
            completed=completed,
            endings=endings,
            stuck=self._told[0],
            progress=self._told[1],
            dropped=dropped,
            excluding=self._excluded,
        )

    def offer(self, report: Report, room: int) -> None:
        """Say how many more tasks would be taken now."""
        self._takes_in_all = report.takes_in_all = self._handed_in_all + room
