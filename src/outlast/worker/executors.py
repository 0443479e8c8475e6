"""A worker's crew: its threads and its loop behind one door, sharing the slots there are."""

from outlast.worker.job import Begun, Job, Laid
from outlast.worker.loop import Loop
from outlast.worker.threads import Slots, Threads

GOODBYE_SECONDS = 0.5


class Crew:
    """Runs jobs where they belong: plain functions and child processes in threads, coroutines on
    the loop."""

    def __init__(self, concurrency: int, begun: Begun, laid: Laid) -> None:
        slots = Slots(concurrency)
        self._threads = Threads(concurrency, slots, begun, laid)
        self._loop = Loop(concurrency, slots, begun, laid)

    def hold(self, lock_descriptor: int) -> None:
        """The lock that the handlers' processes inherit from now on."""
        self._threads.lock_descriptor = lock_descriptor

    def give(self, jobs: list[Job]) -> None:
        """Have these run."""
        plain = [job for job in jobs if job.is_plain]
        if plain:
            self._threads.give(plain)
        if len(plain) < len(jobs):
            self._loop.give([job for job in jobs if not job.is_plain])

    def close(self) -> None:
        """Let the idle go; who is still busy is left behind."""
        self._threads.close(GOODBYE_SECONDS)
        self._loop.close(GOODBYE_SECONDS)
