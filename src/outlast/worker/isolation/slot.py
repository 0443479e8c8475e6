"""Running a handler in a process of its own: a slot of the worker, and the process it keeps.

A handler that crashes, hangs or takes too much memory hurts only its own task. The process is
started when it is first needed, is used for one task after another, and is started anew after it
ended. Handlers that start processes themselves lose them when they are killed, unless those have
made themselves a session of their own.
"""

import os
import sys
import threading
import time

from outlast.store.records import Claimed, Grant, Trace
from outlast.tasks.context import Context
from outlast.tasks.execute import Ended, failed
from outlast.tasks.functions import AnyFunction
from outlast.worker.isolation.context import answer_to
from outlast.worker.isolation.load import Unreachable, place_of, refuse_while_loading
from outlast.worker.isolation.messages import Job, Place, ToHandler
from outlast.worker.isolation.process import Death, IsolatedProcess, Over

LOADING_SECONDS = 300.0
GOODBYE_SECONDS = 2.0


class _Stopped(Exception):
    """The handler has to end now, for the reason given."""


class IsolatedSlot:
    """One slot of a worker for handlers in processes. A single thread runs and closes it.

    The worker's lock descriptor goes to the handler's process, so that the worker's tasks stay
    taken for as long as the handler lives, even if the worker itself should not.
    """

    def __init__(
        self, lock_descriptor: int | None = None, *, loading_seconds: float = LOADING_SECONDS
    ) -> None:
        refuse_while_loading()
        self.lock_descriptor = lock_descriptor
        self._loading_seconds = loading_seconds
        self._mutex = threading.RLock()
        self._process: IsolatedProcess | None = None
        self._locked_by: tuple[int, int] | None = None
        self._running: Grant | None = None
        self._why: str | None = None
        self._places: dict[tuple[str, str], Place] = {}

    @property
    def pid(self) -> int | None:
        """The process the last handler ran in, if it may still be there."""
        process = self._process
        return process.handler_pid if process is not None else None

    def run(
        self,
        function: AnyFunction,
        claimed: Claimed,
        ctx: Context,
        *,
        timeout_seconds: float | None = None,
        trace: Trace | None = None,
    ) -> Ended:
        """Run a handler to its end: its own, that of its process, or the one it was given.

        The time limit is for the handler alone; loading its module has a long one of its own.
        """
        with self._mutex:
            self._running, self._why = claimed.grant, None
        try:
            if ctx.cancelled:
                # Called off before there was anything to kill.
                return Ended(error=f"the handler was not started: {ctx.reason}")
            job = Job(
                self._place_of(function),
                claimed,
                function.options.memory_limit_bytes,
                [os.fsencode(one) for one in sys.argv],
                trace,
            )
            return self._run(job, ctx, timeout_seconds)
        except Unreachable as error:
            return failed(error)
        except OSError as error:
            return Ended(error=f"no process could be started for the handler: {error}")
        finally:
            with self._mutex:
                self._running = None

    def kill(self, why: str, *, only: Grant | None = None) -> bool:
        """End the handler, and everything it started, at once; from any thread.

        `only` guards the next task from a kill that was meant for one that just ended. True if
        there was something to kill.
        """
        with self._mutex:
            if only is not None and only != self._running:
                return False
            self._why = why
            process, running = self._process, self._running
        if process is not None:
            process.kill()
        return process is not None or running is not None

    def close(self) -> None:
        """Let the process end by itself for a moment, then see to it that it does."""
        process = self._forget()
        if process is not None:
            process.leave(GOODBYE_SECONDS)

    def _place_of(self, function: AnyFunction) -> Place:
        ref = function.module_ref
        if ref not in self._places:
            self._places[ref] = place_of(function)
        return self._places[ref]

    def _run(self, job: Job, ctx: Context, timeout_seconds: float | None) -> Ended:
        while True:
            process, is_new = self._ready_process()
            conversation = _Conversation(process, ctx, self._loading_seconds, timeout_seconds)
            try:
                return conversation.about(job)
            except Over:
                death = self._bury()
                if self._why is None and not is_new and not conversation.has_heard:
                    # It had died of something else before it took this job up.
                    continue
                return self._dead(death, job, conversation)
            except _Stopped as stopped:
                process.kill()
                self._why = self._why or str(stopped)
                return self._dead(self._bury(), job, conversation)

    def _ready_process(self) -> tuple[IsolatedProcess, bool]:
        """The process of the last task, which may have died since, or a new one."""
        process = self._process
        lock = _identity(self.lock_descriptor)
        if process is not None and lock == self._locked_by:
            return process, False
        self.close()
        process = IsolatedProcess(self.lock_descriptor)
        with self._mutex:
            self._process, self._locked_by = process, lock
            if self._why is not None:
                process.kill()
        return process, True

    def _bury(self) -> Death:
        process = self._process
        assert process is not None
        death = process.reap()
        self._forget()
        return death

    def _forget(self) -> IsolatedProcess | None:
        with self._mutex:
            process, self._process = self._process, None
            return process

    def _dead(self, death: Death, job: Job, conversation: "_Conversation") -> Ended:
        loading = "" if conversation.has_begun else f" while it loaded module {job.place.module}"
        what = death.in_words(job.memory_limit_bytes, self._why)
        return Ended(
            error=f"the handler's process {what}{loading}",
            exit_signal=death.signal,
            peak_memory_bytes=death.peak_memory_bytes,
        )


class _Conversation:
    """What the worker and the handler's process say to each other about one job."""

    def __init__(
        self,
        process: IsolatedProcess,
        ctx: Context,
        loading_seconds: float,
        timeout_seconds: float | None,
    ) -> None:
        self._process = process
        self._ctx = ctx
        self._loading_seconds = loading_seconds
        self._timeout_seconds = timeout_seconds
        self.has_heard = False
        """Whether the process is known to have taken the job up."""
        self.has_begun = False
        """Whether the handler itself has begun."""

    def about(self, job: Job) -> Ended:
        """Hand the job over, answer what the handler asks, and hear how it ended."""
        self._process.send(ToHandler(job=job))
        until: float | None = time.monotonic() + self._loading_seconds
        while True:
            try:
                message = self._process.hear(until)
            except TimeoutError:
                raise _Stopped(self._too_long()) from None
            self.has_heard = self.has_heard or message.pid is None
            if message.has_begun:
                self.has_begun = True
                limit_seconds = self._timeout_seconds
                until = None if limit_seconds is None else time.monotonic() + limit_seconds
            if message.call is not None:
                self._process.send(ToHandler(answer=answer_to(message.call, self._ctx)))
            if message.ended is not None:
                return message.ended

    def _too_long(self) -> str:
        if self.has_begun:
            return f"it ran longer than its timeout of {self._timeout_seconds:g} s"
        return f"loading took longer than {self._loading_seconds:g} s"


def _identity(descriptor: int | None) -> tuple[int, int] | None:
    """Which file a descriptor is on; its number alone may be used again for another."""
    if descriptor is None:
        return None
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino
