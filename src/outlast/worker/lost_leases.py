"""What a worker does about a lease that has ended without its doing: it calls the handler off,
counts the loss and logs it. The dispatcher says which leases."""

import time

from outlast.store.records import Grant
from outlast.store.session import Session
from outlast.worker.counts import Tally
from outlast.worker.job import Job
from outlast.worker.jobs import Jobs


class LostLeases:
    """Removes jobs whose leases the worker has lost."""

    def __init__(self, session: Session, jobs: Jobs, tally: Tally, worker: str) -> None:
        self._session = session
        self._jobs = jobs
        self._tally = tally
        self._worker = worker
        self._put_off: list[Grant] = []

    def hear(self, grant: Grant) -> None:
        """The store process has seen that a lease has ended."""
        if self._jobs.is_completing(grant):
            # A handler that completes its task ends the lease itself, and is about to say so here;
            # if it fails to, the store process will not tell of the loss again.
            self._put_off.append(grant)
        else:
            self.lose(grant, "its lease was lost")

    def look_again(self) -> None:
        """Whoever was about to complete may have done so by now, or have failed to."""
        put_off, self._put_off = self._put_off, []
        for grant in put_off:
            self.hear(grant)

    def lose(self, grant: Grant, reason: str, *, is_taken: bool = True) -> None:
        """Call a task off. Unless somebody has taken it, the note that it began stays: whoever
        takes it has to know."""
        # One loss may be told twice: by a look at the leases, and as the answer to a late result.
        job, is_news, is_done = self._jobs.take_out(grant)
        if is_done:
            # Its handler completed it itself, and may have more to do.
            self._tally.completed += is_news
            self._session.store.leases.note_end([grant])
            return
        self._tally.lost += is_news
        if job is not None:
            self.call_off(job, reason)
            about = job.fields() | {"worker": self._worker, "reason": reason}
            self._session.log.warning("task %s: %s", job.claimed.task_id, reason, extra=about)
        if is_taken:
            self._session.store.leases.note_end([grant])

    def call_off(self, job: Job, reason: str) -> None:
        """Tell a handler that nothing it does counts any more, and end it where possible."""
        job.call_off(reason, time.monotonic(), self._session.now().utc_ms)
