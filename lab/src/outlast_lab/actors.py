"""The director's side of the processes that experiments stop, shift and kill.

A company is started in whatever world its actors shall live in: with another wall clock, in
namespaces of its own. What an actor does is in `acting`; here it is asked, stopped and ended.
"""

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from outlast.host import kernel
from outlast_lab.acting import LONGEST_LETTER

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

    def __init__(self, pid: int, own_pid: int, wire: socket.socket) -> None:
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
            self._wire.send(json.dumps([verb, arguments, options]).encode())
        except OSError as error:
            raise NoAnswer(f"process {self.pid} is gone and cannot be asked: {error}") from None

    def answer(self, within_seconds: float = PATIENCE_SECONDS) -> Any:
        """The answer to what it was last told."""
        if not self.has_answered(within_seconds):
            raise NoAnswer(f"process {self.pid} gave no answer within {within_seconds:g} s")
        try:
            letter = self._wire.recv(LONGEST_LETTER)
        except OSError as error:
            raise NoAnswer(f"process {self.pid} ended without an answer: {error}") from None
        if not letter:
            raise NoAnswer(f"process {self.pid} ended without an answer")
        word, value = json.loads(letter)
        if word == "raises":
            raise ActorRaised(value)
        return value

    def has_answered(self, within_seconds: float = 0.0) -> bool:
        """Whether there is an answer to be had, or never will be."""
        poll = select.poll()
        poll.register(self._wire, select.POLLIN)
        return bool(poll.poll(within_seconds * 1000))

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
    while not _stands_still(pid):
        if time.monotonic() > until:
            raise NoAnswer(f"process {pid} does not stop")
        time.sleep(_LOOK_SECONDS)


def _stands_still(pid: int) -> bool:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except FileNotFoundError:
        raise NoAnswer(f"process {pid} has ended") from None
    found = [kernel.read_text(f"/proc/{pid}/task/{thread}/stat") for thread in threads]
    return all(text is None or text.rpartition(")")[2].split()[0] in "TtZX" for text in found)


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

    `prelude` is a program that runs in the company before it makes anybody: the laboratory's own
    tests plant their defects by it. A company is a session of its own, so that an interrupt from
    the keyboard is heard by the laboratory alone.
    """

    def __init__(
        self,
        prefix: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        prelude: str = "",
    ) -> None:
        self.is_abandoned = False
        self._made: list[Actor] = []
        # Not a pipe, for nobody reads it, and an actor with much to say would wait for a reader.
        self._said = os.memfd_create("what a company says")
        self._mutex = threading.Lock()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        program = f"{prelude}\nfrom outlast_lab.acting import serve\nserve({theirs.fileno()})\n"
        with theirs:
            self._process = subprocess.Popen(
                [*prefix, sys.executable, "-P", "-c", program],
                pass_fds=[theirs.fileno()],
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stderr=self._said,
                start_new_session=True,
            )
        try:
            self.clocks: dict[str, float] = self._ask({})
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
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, self._mutex:
            told = int(self._ask({"pid": pid}, theirs.fileno())["pid"])
            made = Actor(self._seen_from_here(told), told, mine)
            self._made.append(made)
        return made

    def _ask(self, request: dict[str, Any], *descriptors: int) -> Any:
        letter = json.dumps(request).encode()
        try:
            socket.send_fds(self._control, [letter], list(descriptors))
            self._control.settimeout(PATIENCE_SECONDS)
            answer = self._control.recv(LONGEST_LETTER)
        except OSError as error:
            raise NoAnswer(f"a company did not begin: {error}: {self._last_words()}") from None
        if not answer:
            raise NoAnswer(f"a company did not begin: {self._last_words()}")
        return json.loads(answer)

    def _last_words(self) -> str:
        self._process.kill()
        self._process.wait(_GOODBYE_SECONDS)
        length = os.fstat(self._said).st_size
        said = os.pread(self._said, length, 0).decode(errors="replace").strip()
        return said.splitlines()[-1] if said else ""

    def _seen_from_here(self, pid: int) -> int:
        """The pid by which this process knows an actor of a company with pids of its own."""
        for one in _descendants_of_who_may_be_gone(self._process.pid):
            status = kernel.read_text(f"/proc/{one}/status") or ""
            for line in status.splitlines():
                name, *pids = line.split()
                if name == "NSpid:" and int(pids[-1]) == pid:
                    return one
        raise NoAnswer(f"process {pid} of a company is gone already")

    def abandon(self) -> None:
        """End all of them at once, whoever still waits for their answers."""
        self.is_abandoned = True
        self._process.kill()

    def close(self) -> None:
        """End all of them; a company ends by itself when nobody can ask it any more."""
        with ExitStack() as stack:
            stack.callback(self._close_said)
            stack.callback(self._await_end)
            stack.callback(self._control.close)
            for one in self._made:
                stack.callback(one.close)
            self._made.clear()

    def _close_said(self) -> None:
        if self._said >= 0:
            os.close(self._said)
            self._said = -1

    def _await_end(self) -> None:
        try:
            self._process.wait(_GOODBYE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_GOODBYE_SECONDS)


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


def _descendants_of_who_may_be_gone(pid: int) -> Iterator[int]:
    with suppress(FileNotFoundError, ProcessLookupError):
        yield from _descendants(pid)


def _descendants(pid: int) -> Iterator[int]:
    for thread in os.listdir(f"/proc/{pid}/task"):
        for child in (kernel.read_text(f"/proc/{pid}/task/{thread}/children") or "").split():
            yield int(child)
            yield from _descendants_of_who_may_be_gone(int(child))


def clerk_of(worker_pid: int) -> int:
    """The process that claims and settles for a worker; waits until there is one."""
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        for pid in _descendants_of_who_may_be_gone(worker_pid):
            if "outlast.app.store_process_main" in (kernel.read_text(f"/proc/{pid}/cmdline") or ""):
                return pid
        time.sleep(_LOOK_SECONDS)
    raise NoAnswer(f"worker {worker_pid} has no clerk")


def fresh(folder: Path) -> Path:
    """An empty folder of that name."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
