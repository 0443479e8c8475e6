"""The process an isolated handler runs in: takes a job, runs it, says how it ended, and so on.

It ends when its worker hangs up, and the kernel ends it with its keeper. Until then the worker's
lock is held by it too, so that nobody takes the worker for dead and its task for free.
"""

import itertools
import os
import select
import signal
import socket
import sys
import threading
from collections import deque
from contextlib import suppress
from dataclasses import replace

from outlast.errors import LeaseInherited, LeaseLost
from outlast.host import memory, processes
from outlast.tasks.execute import Ended, execute, execute_async, failed
from outlast.tasks.functions import AnyFunction
from outlast.tasks.tracing import inside
from outlast.worker.isolation.context import IsolatedContext
from outlast.worker.isolation.keeper import STOPPING
from outlast.worker.isolation.load import load
from outlast.worker.isolation.messages import Answer, Call, FromHandler, Job, Place, ToHandler, Verb
from outlast.worker.messages import Wire

_MIB = 1 << 20


def serve(wire: int, lock: int, keeper_pid: int) -> None:
    """Run jobs until the worker hangs up."""
    processes.die_with_parent(keeper_pid)
    memory.prefer_for_oom_kill()
    line = Line(socket.socket(fileno=wire))
    os.register_at_fork(
        before=_hold_back_signals,
        after_in_parent=_let_signals_through,
        after_in_child=lambda: _leave_to_parent(line, lock),
    )
    loaded: dict[Place, AnyFunction] = {}
    with suppress(EOFError):
        line.send(FromHandler(pid=os.getpid()))
        while True:
            job = line.receive().job
            if job is not None:
                line.send(FromHandler(ended=_run(job, line, loaded)))


def _hold_back_signals() -> None:
    """One that comes right after a fork must not meet the handler that does nothing."""
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)


def _let_signals_through() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)


def _leave_to_parent(line: "Line", lock: int) -> None:
    """What the handler forks has no part in the conversation, nor in the worker's lock."""
    line.close()
    if lock >= 0:
        with suppress(OSError):
            os.close(lock)
    for number in STOPPING:
        signal.signal(number, signal.SIG_DFL)
    _let_signals_through()


class Line:
    """The handler's end of the wire; unlike the wire itself it waits until all is said."""

    def __init__(self, end: socket.socket) -> None:
        self._wire = Wire(end, ToHandler)
        self._arrived: deque[ToHandler] = deque()
        self._is_closed = False
        self._numbers = itertools.count(1)

    def next_number(self) -> int:
        """A number for a question, never used before on this line."""
        return next(self._numbers)

    def send(self, message: FromHandler) -> None:
        """Write to the worker; EOFError when it is gone."""
        if self._is_closed:
            raise EOFError
        self._wire.send(message)
        while self._wire.has_unsent:
            if self._wait(select.POLLOUT) & (select.POLLERR | select.POLLHUP):
                raise EOFError
            self._wire.flush()

    def receive(self) -> ToHandler:
        """The next message from the worker; EOFError when there will be none."""
        while not self._arrived:
            self._wait(select.POLLIN)
            self._arrived.extend(self._wire.messages())
        return self._arrived.popleft()

    def _wait(self, events: int) -> int:
        """Wait for one of the events, and tell which came."""
        if self._is_closed:
            raise EOFError
        poll = select.poll()
        poll.register(self._wire.fileno(), events)
        ((_, happened),) = poll.poll()
        if happened & select.POLLNVAL:
            raise EOFError
        return happened

    def close(self) -> None:
        """Take no part any more."""
        self._is_closed = True
        self._wire.close()


class Asking:
    """The questions of one attempt; its threads take turns, and none may ask after its end."""

    def __init__(self, line: Line, job: Job) -> None:
        self._line = line
        self._task_id = job.claimed.task_id
        self._pid = os.getpid()
        self._turn = threading.Lock()
        self._is_over = False

    def ask(self, verb: Verb, arguments: str) -> Answer:
        """Put a question to the worker and wait for the answer to this very one."""
        if os.getpid() != self._pid:
            raise LeaseInherited(self._task_id)
        with self._turn:
            if self._is_over:
                raise LeaseLost(self._task_id, ": this attempt has ended")
            number = self._line.next_number()
            self._line.send(FromHandler(call=Call(number, verb, arguments)))
            while True:
                # The answer to a question whose asker was interrupted may come first.
                answer = self._line.receive().answer
                if answer is not None and answer.number == number:
                    return answer

    def end(self) -> None:
        """The handler has come back: threads it left behind speak for nobody."""
        with self._turn:
            self._is_over = True


def _run(job: Job, line: Line, loaded: dict[Place, AnyFunction]) -> Ended:
    pid = os.getpid()
    memory.reset_peak_memory()
    asking = Asking(line, job)
    try:
        with memory.memory_limit(job.memory_limit_bytes):
            ended = _executed(job, line, asking, loaded)
    except EOFError:
        raise
    except BaseException as error:
        # An interrupt of the handler's own; or saying what went wrong took too much memory.
        ended = failed(error)
    if os.getpid() != pid:
        # A fork of the handler's that came back from it: there is nothing more for it to do.
        os.kill(os.getpid(), signal.SIGKILL)
    asking.end()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    peak_bytes = memory.peak_memory_bytes()
    return replace(
        ended, error=_with_limit(ended.error, job, peak_bytes), peak_memory_bytes=peak_bytes
    )


def _executed(job: Job, line: Line, asking: Asking, loaded: dict[Place, AnyFunction]) -> Ended:
    function = loaded.get(job.place)
    if function is None:
        sys.argv[:] = [os.fsdecode(one) for one in job.argv]
        try:
            function = loaded[job.place] = load(job.place, job.claimed.kind)
        except BaseException as error:
            return failed(error)
    ctx = IsolatedContext(asking.ask, job.claimed)
    line.send(FromHandler(has_begun=True))
    with inside(function, job.trace):
        if not function.is_async:
            return execute(function, job.claimed, ctx)
        import asyncio

        return asyncio.run(execute_async(function, job.claimed, ctx))


def _with_limit(error: str | None, job: Job, peak_bytes: int | None) -> str | None:
    """The limit that was met, in the first line of the error that came of it."""
    if error is None or job.memory_limit_bytes is None or not error.startswith("MemoryError"):
        return error
    head, newline, frames = error.partition("\n")
    limit = f"limit {job.memory_limit_bytes // _MIB} MiB"
    peak = f", peak {peak_bytes // _MIB} MiB" if peak_bytes is not None else ""
    return f"{head} ({limit}{peak}){newline}{frames}"
