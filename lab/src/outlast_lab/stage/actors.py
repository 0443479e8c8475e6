"""The director's side of the processes that experiments stop, shift and kill.

A company is started in whatever world its actors shall live in: with another wall clock, in
namespaces of its own. What an actor does is in `acting`; here it is asked, stopped and ended.
"""

import os
import select
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from outlast.host import proc_files
from outlast_lab.stage.fork_server import ForkServer, Lost
from outlast_lab.stage.process_table import (
    STANDING_STILL,
    descendants,
    states_of,
    store_process_below,
)
from outlast_lab.stage.wire import RAISES, Wire

PATIENCE_SECONDS = 30.0
_GOODBYE_SECONDS = 5.0
_LOOK_SECONDS = 0.001
_AT_ONCE = 4

One = TypeVar("One")
Outcome = TypeVar("Outcome")


class NoAnswer(Exception):
    """An actor did not do in time what it was asked, or is gone."""


class ActorRaised(Exception):
    """What an actor was asked raised something; its words."""


class Actor:
    """One process that does what it is asked, and can be stopped and killed at any moment."""

    def __init__(self, pid: int, own_pid: int, wire: Wire) -> None:
        self.pid = pid
        self.own_pid = own_pid
        """The pid by which it knows itself."""
        self._wire = wire
        self._end = _pidfd(pid)

    def ask(self, verb: str, *arguments: Any, **options: Any) -> Any:
        """Have it do something, and wait for the answer."""
        self.tell(verb, *arguments, **options)
        return self.answer()

    def tell(self, verb: str, *arguments: Any, **options: Any) -> None:
        """Have it do something, whatever comes of it."""
        try:
            self._wire.send([verb, arguments, options])
        except OSError as error:
            raise NoAnswer(f"process {self.pid} is gone and cannot be asked: {error}") from None

    def answer(self, within_seconds: float = PATIENCE_SECONDS) -> Any:
        """The answer to what it was last told."""
        if not self.has_answered(within_seconds):
            raise NoAnswer(f"process {self.pid} gave no answer within {within_seconds:g} s")
        try:
            heard = self._wire.receive()
        except OSError as error:
            raise NoAnswer(f"process {self.pid} ended without an answer: {error}") from None
        if heard is None:
            raise NoAnswer(f"process {self.pid} ended without an answer")
        word, value = heard[0]
        if word == RAISES:
            raise ActorRaised(value)
        return value

    def has_answered(self, within_seconds: float = 0.0) -> bool:
        """Whether there is an answer to be had, or never will be."""
        return self._wire.has_something(within_seconds)

    def stop(self) -> None:
        """Stop it; returns once the kernel says that all of it stands still."""
        self.send_signal(signal.SIGSTOP)
        self.await_stop()

    def await_stop(self) -> None:
        """Wait until it stands still, by whoever's hand."""
        await_stop_of(self.pid)

    def resume(self) -> None:
        """Let it go on."""
        self.send_signal(signal.SIGCONT)

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal, which can never reach another process that has its pid by now."""
        try:
            signal.pidfd_send_signal(self._end, number)
        except OSError:
            raise NoAnswer(f"process {self.pid} is gone and hears no {number.name}") from None

    def kill(self) -> None:
        """End it as a crash would; returns once it is gone."""
        with suppress(NoAnswer):
            self.send_signal(signal.SIGKILL)
        self.await_end()

    def await_end(self) -> None:
        """Wait until it is gone."""
        poll = select.poll()
        poll.register(self._end, select.POLLIN)
        if not poll.poll(PATIENCE_SECONDS * 1000):
            raise NoAnswer(f"process {self.pid} does not end")
        until = time.monotonic() + PATIENCE_SECONDS
        # Its pid can come again only when nothing of it is left.
        while os.path.exists(f"/proc/{self.pid}") and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)

    def close(self) -> None:
        """Kill it if it lives, and let go."""
        if self._end < 0:
            return
        try:
            self.kill()
        finally:
            os.close(self._end)
            self._end = -1
            self._wire.close()


def _pidfd(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        raise NoAnswer(f"process {pid} is gone: {error}") from None


def await_stop_of(pid: int) -> None:
    """Wait until every thread of a process stands still."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not (states := states_of(pid)) <= STANDING_STILL:
        if time.monotonic() > until:
            raise NoAnswer(f"process {pid} does not stop")
        time.sleep(_LOOK_SECONDS)
    if not states:
        raise NoAnswer(f"process {pid} has ended")


@contextmanager
def stopped(*pids: int) -> Iterator[None]:
    """Processes that stand still for a while."""
    with ExitStack() as stack:
        ends = []
        for pid in pids:
            ends.append(_pidfd(pid))
            stack.callback(os.close, ends[-1])
        for end in ends:
            stack.callback(_signal_if_there, end, signal.SIGCONT)
            _signal_if_there(end, signal.SIGSTOP)
        for pid in pids:
            await_stop_of(pid)
        yield


def _signal_if_there(end: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(end, number)


class Company:
    """Makes actors, all in one world: by a prefix to the command, or by the environment.

    `prelude` is a program that runs in the company before it makes anybody.
    """

    def __init__(
        self,
        prefix: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        prelude: str = "",
    ) -> None:
        self.is_abandoned = False
        self._made: list[Actor] = []
        self._mutex = threading.Lock()
        self._server = ForkServer(
            "outlast_lab.stage.acting:company",
            prefix=prefix,
            environment=environment,
            prelude=prelude,
        )
        self._server.wire.give_up_after(PATIENCE_SECONDS)
        try:
            self.clocks: dict[str, float] = self._ask("clocks")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        """Nothing more is needed."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nobody of them is left."""
        self.close()

    def actor(self, pid: int | None = None) -> Actor:
        """A new process; with a certain pid, where the company has pids of its own."""
        until = time.monotonic() + _GOODBYE_SECONDS
        while True:
            made = self._forked(pid)
            if pid in (None, made.own_pid) or time.monotonic() > until:
                return made
            # The kernel has not let go of the pid yet.
            made.close()

    def _forked(self, pid: int | None) -> Actor:
        mine, theirs = Wire.pair()
        with theirs, self._mutex:
            told = int(self._ask("fork", pid, descriptors=[theirs.fileno()]))
            made = Actor(self._seen_from_here(told), told, mine)
            self._made.append(made)
        return made

    def _ask(self, verb: str, *arguments: Any, descriptors: Sequence[int] = ()) -> Any:
        try:
            return self._server.ask(verb, *arguments, descriptors=descriptors)
        except Lost as error:
            raise NoAnswer(f"a company did not begin: {error}") from None

    def _seen_from_here(self, pid: int) -> int:
        """The pid by which this process knows an actor of a company with pids of its own."""
        for one in descendants(self._server.pid):
            status = proc_files.read_text(f"/proc/{one}/status") or ""
            for line in status.splitlines():
                name, *pids = line.split()
                if name == "NSpid:" and int(pids[-1]) == pid:
                    return one
        raise NoAnswer(f"process {pid} of a company is gone already")

    def abandon(self) -> None:
        """End all of them at once, whoever still waits for their answers."""
        self.is_abandoned = True
        self._server.kill()

    def close(self) -> None:
        """End all of them; a company ends by itself when nobody can ask it any more."""
        with ExitStack() as stack:
            stack.callback(self._server.close, _GOODBYE_SECONDS)
            for one in self._made:
                stack.callback(one.close)
            self._made.clear()


def played_at_once(
    cases: Sequence[One], play: Callable[[int, One], Outcome], abandon: Callable[[], None]
) -> Iterator[Outcome]:
    """What comes of cases, some played at once, for they mostly wait.

    Whoever interrupts it does not wait for those under way: `abandon` has to end their processes.
    """
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        try:
            yield from pool.map(play, range(len(cases)), cases)
        except BaseException:
            abandon()
            raise


def store_process_of(worker_pid: int) -> int:
    """The process that claims and settles for a worker; waits until there is one."""
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        if (pid := store_process_below(worker_pid)) is not None:
            return pid
        time.sleep(_LOOK_SECONDS)
    raise NoAnswer(f"worker {worker_pid} has no store process")


def fresh(folder: Path) -> Path:
    """An empty folder of that name."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
