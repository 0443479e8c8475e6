"""A thread of the store's own, for what nobody should wait for: flushes, and coroutines' groups."""

import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from outlast.errors import OutlastError
from outlast.logs import logger

if TYPE_CHECKING:
    from concurrent.futures import Executor

# One leads for coroutines, one sees their lone operations through, one flushes.
THREADS = 3

log = logger("outlast.store")


class Background:
    """Its threads are started when first needed, and end with the store."""

    def __init__(self) -> None:
        # Here and not when a thread first needs it: a child forked while a module is being
        # imported waits for its end for ever. No fork comes between the parts of an opening.
        from concurrent.futures import ThreadPoolExecutor

        self._make_executor = partial(ThreadPoolExecutor, THREADS, "outlast")
        self._mutex = threading.Lock()
        self._executor: Executor | None = None
        self._closed = False

    def later(self, job: Callable[[], None]) -> None:
        """Run a job soon; when the interpreter ends there is no later, and it is run at once."""
        with self._mutex:
            if self._executor is None and not self._closed:
                self._executor = self._make_executor()
            executor = self._executor
        try:
            if executor is not None:
                executor.submit(_run, job)
                return
        except RuntimeError:
            log.debug("the interpreter is ending; a job is run by its caller")
        _run(job)

    def close(self) -> None:
        """Let the jobs under way end, and start no more."""
        with self._mutex:
            self._closed = True
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=True, cancel_futures=False)


def _run(job: Callable[[], None]) -> None:
    try:
        job()
    except OutlastError as error:
        log.debug("in the background: %s", error)
    except Exception:
        log.exception("a job in the background failed")
