"""Threads of the store's own, for what nobody should wait for: flushes, and coroutines' groups."""

import threading
from collections.abc import Callable
from queue import SimpleQueue

from outlast.errors import OutlastError
from outlast.logs import logger

# One leads for coroutines, one sees their lone operations through, one flushes.
THREADS = 3

log = logger("outlast.store")

Job = Callable[[], None]


class Background:
    """Its threads are started when first needed, and end with the store.

    Made of what is imported anyway: a module that is imported later may be so while the
    interpreter ends, by a user who may not read it any more, or in one thread while another forks.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._mutex = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._unfinished = 0
        self._closed = False

    def later(self, job: Job) -> None:
        """Run a job soon; when there is no later, since we or the interpreter end, at once."""
        with self._mutex:
            if not self._closed and self._has_a_thread():
                self._unfinished += 1
                self._jobs.put(job)
                return
        _run(job)

    def _has_a_thread(self) -> bool:
        """Whether there is one for a further job; started if all are busy."""
        if self._unfinished < len(self._threads) or len(self._threads) >= THREADS:
            return True
        name = f"outlast_{len(self._threads)}"
        # An interpreter that ends waits for none: what is acknowledged is durable already.
        thread = threading.Thread(target=self._work, name=name, daemon=True)
        try:
            thread.start()
            self._threads.append(thread)
        except RuntimeError as error:
            log.debug("no thread can be started (%s)", error)
        return bool(self._threads)

    def _work(self) -> None:
        me = threading.current_thread()
        with self._mutex:
            # Who started it may have been struck by a signal's exception before this was noted.
            if me not in self._threads:
                self._threads.append(me)
        while (job := self._jobs.get()) is not None:
            try:
                _run(job)
            except BaseException:
                log.exception("a job in the background failed")
            with self._mutex:
                self._unfinished -= 1
        # The next one is told by this one, however many there are.
        self._jobs.put(None)

    def close(self) -> None:
        """Let the jobs under way end, and start no more."""
        with self._mutex:
            self._closed = True
            threads = list(self._threads)
        self._jobs.put(None)
        for thread in threads:
            thread.join()


def _run(job: Job) -> None:
    try:
        job()
    except OutlastError as error:
        log.debug("in the background: %s", error)
    except Exception:
        log.exception("a job in the background failed")
