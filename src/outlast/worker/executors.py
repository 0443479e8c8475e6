"""The executors of a worker: its threads and its event loop, which share the slots."""

from outlast.worker.job import BeginJob, EndJob, Job
from outlast.worker.loop import Loop
from outlast.worker.threads import Slots, Threads

GOODBYE_SECONDS = 0.5


class Executors:
    """Runs jobs where they belong: plain functions and child processes in threads, coroutines on
    the loop."""

    def __init__(self, concurrency: int, begin_job: BeginJob, end_job: EndJob) -> None:
        slots = Slots(concurrency)
        self._threads = Threads(concurrency, slots, begin_job, end_job)
        self._loop = Loop(concurrency, slots, begin_job, end_job)

    def hold(self, lock_descriptor: int) -> None:
        """Set the lock that the handlers' processes inherit from now on."""
        self._threads.lock_descriptor = lock_descriptor

    def give(self, jobs: list[Job]) -> None:
        """Have these run."""
        plain = [job for job in jobs if job.is_plain]
        if plain:
            self._threads.give(plain)
        if len(plain) < len(jobs):
            self._loop.give([job for job in jobs if not job.is_plain])

    def close(self) -> None:
        """End idle threads and the loop; a handler that is still busy is left behind."""
        self._threads.close(GOODBYE_SECONDS)
        self._loop.close(GOODBYE_SECONDS)
