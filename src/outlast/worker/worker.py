"""The worker: runs the registered functions on claimed tasks until it is told to stop."""

import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType

from outlast.domain.names import checked_name, checked_names, checked_queues, checked_whole
from outlast.domain.record import record
from outlast.errors import InvalidInput, OutlastError
from outlast.store.records import MAX_KINDS
from outlast.store.session import Session, SessionSource
from outlast.tasks.enqueue_input import DEFAULT_QUEUE
from outlast.tasks.functions import AnyFunction
from outlast.worker.counts import Tally
from outlast.worker.dispatcher import Dispatcher
from outlast.worker.isolation.load import refuse_while_loading
from outlast.worker.messages import Begin
from outlast.worker.store_link import StoreLink, plain_settings
from outlast.worker.systemd import Systemd

MAX_CONCURRENCY = 1000
MAX_PREFETCH = 2000
DISMISSAL_SECONDS = 30.0


@record(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """What a worker was told: its name, how much it does at once, what it serves."""

    name: str | None
    concurrency: int
    queues: tuple[str, ...] | None
    kinds: tuple[str, ...] | None
    prefetch: int
    shutdown_seconds: float


def checked_options(
    *,
    name: str | None,
    concurrency: int,
    queues: str | Sequence[str] | None,
    kinds: Sequence[str] | None,
    prefetch: int,
    shutdown_seconds: float,
) -> WorkerOptions:
    """The same, refused in one sentence where it makes no sense."""
    return WorkerOptions(
        name=None if name is None else checked_name(name, "name"),
        concurrency=checked_whole(concurrency, "concurrency", 1, MAX_CONCURRENCY),
        queues=None if queues is None else checked_queues(queues, "queues"),
        kinds=None if kinds is None else checked_names(kinds, "kinds"),
        prefetch=checked_whole(prefetch, "prefetch", 0, MAX_PREFETCH),
        shutdown_seconds=shutdown_seconds,
    )


class Worker:
    """Claims tasks of the kinds its app has registered, and runs them."""

    def __init__(
        self, handle: SessionSource, functions: Mapping[str, AnyFunction], options: WorkerOptions
    ) -> None:
        self._handle = handle
        self._functions = functions
        self._options = options
        self._name = options.name or _name_of_this_thread()
        self._dispatcher: Dispatcher | None = None
        self._mutex = threading.Lock()
        self._stop_requested: float | None = None
        self._tally = Tally()

    @property
    def name(self) -> str:
        """The name its tasks are held under."""
        return self._name

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues it serves: those it was told, or `default` and what its functions name."""
        if self._options.queues is not None:
            return self._options.queues
        named = (self._functions[kind].options.queue for kind in self._kinds())
        return tuple(dict.fromkeys([DEFAULT_QUEUE, *named]))

    @property
    def tally(self) -> Tally:
        """What was committed so far."""
        dispatcher = self._dispatcher
        return replace(dispatcher.tally if dispatcher else self._tally)

    @property
    def running(self) -> int:
        """How many handlers are at work now."""
        dispatcher = self._dispatcher
        return dispatcher.running if dispatcher else 0

    def stop(self, at_once: bool = False) -> None:
        """Claim no more, let handlers finish up to the limit, release the rest; or release now."""
        limit_seconds = 0.0 if at_once else self._options.shutdown_seconds
        if self._stop_requested is None or limit_seconds < self._stop_requested:
            self._stop_requested = limit_seconds
        dispatcher = self._dispatcher
        if dispatcher is not None:
            dispatcher.stop(self._stop_requested)

    def run(
        self, until_empty: bool = False, on_signal: Callable[[bool], None] | None = None
    ) -> Tally:
        """Work until stopped, or with `until_empty` until nothing is left to be done.

        In the main thread SIGTERM and SIGINT stop it politely; a second one, at once. `on_signal`
        is told so, inside the signal's handler: with True when it is to stop at once.
        """
        # A script without a guard would start a second worker inside its own handler's process.
        refuse_while_loading()
        if not self._mutex.acquire(blocking=False):
            raise InvalidInput("this worker runs already; make another one")
        try:
            kinds = self._kinds()
            session = self._handle.serve()
            with self._enlisted(session):
                dispatcher = self._dispatcher_for(session, kinds, until_empty)
                try:
                    self._serve(dispatcher, until_empty, on_signal)
                finally:
                    self._leave(session)
            return self.tally
        finally:
            if self._dispatcher is not None:
                self._tally, self._dispatcher = self._dispatcher.tally, None
            self._stop_requested = None
            self._mutex.release()

    @contextmanager
    def _enlisted(self, session: Session) -> Iterator[None]:
        """Two workers of one name would take each other's tasks for their own."""
        self._name = name = self._options.name or _name_of_this_thread()
        if not session.store.workers.enlist(name):
            raise InvalidInput(f"a worker called {name!r} runs in this process; choose a new name")
        over, thread = threading.Event(), threading.get_ident()

        def dismiss() -> None:
            self.stop(at_once=True)
            # Its own thread closes the store when a signal's handler does.
            if threading.get_ident() != thread:
                over.wait(DISMISSAL_SECONDS)

        session.workers[name] = dismiss
        try:
            yield
        finally:
            del session.workers[name]
            over.set()

    def _dispatcher_for(
        self, session: Session, kinds: tuple[str, ...], until_empty: bool
    ) -> Dispatcher:
        return Dispatcher(
            session,
            StoreLink(session, self._terms(session, kinds, until_empty)),
            {kind: self._functions[kind] for kind in kinds},
            worker=self.name,
            concurrency=self._options.concurrency,
            prefetch=self._options.prefetch,
        )

    def _serve(
        self, dispatcher: Dispatcher, until_empty: bool, on_signal: Callable[[bool], None] | None
    ) -> None:
        self._dispatcher = dispatcher
        if self._stop_requested is not None:
            dispatcher.stop(self._stop_requested)

        def answer(at_once: bool) -> None:
            self.stop(at_once)
            if on_signal is not None:
                on_signal(at_once)

        with stopped_by_signals(answer), Systemd(lambda: dispatcher.is_ready) as systemd:
            dispatcher.serve(until_empty, systemd.tick)

    def _kinds(self) -> tuple[str, ...]:
        known = self._functions
        kinds = tuple(known) if self._options.kinds is None else self._options.kinds
        unknown = [kind for kind in kinds if kind not in known]
        if unknown:
            raise InvalidInput(
                f"no function is registered for kind {unknown[0]!r}; decorate one with @app.task"
            )
        if not kinds:
            raise InvalidInput("no function is registered; decorate one with @app.task first")
        if len(kinds) > MAX_KINDS:
            raise InvalidInput(
                f"a worker serves at most {MAX_KINDS} kinds; name those it should with kinds=[…]"
            )
        return kinds

    def _terms(self, session: Session, kinds: tuple[str, ...], until_empty: bool) -> Begin:
        settings, options = session.settings, self._options
        lengths_ms = {
            kind: settings.lease_ms(kind, self._functions[kind].options.lease_seconds)
            for kind in kinds
        }
        beat = settings.heartbeat
        beat_ms = min([beat.interval_ms, *(max(1, ms // 3) for ms in lengths_ms.values())])
        timeout_seconds = min(settings.write_timeout_seconds, beat.timeout_ms / 1000)
        serves = {
            "queues": self.queues,
            "kinds": kinds,
            "concurrency": options.concurrency,
        }
        return Begin(
            path=os.path.realpath(self._handle.path),
            settings=plain_settings(settings, write_timeout_seconds=timeout_seconds),
            worker=self.name,
            row=0,
            incarnation="",
            pid=os.getpid(),
            queues=list(self.queues),
            kinds=list(kinds),
            lease_ms_by_kind=lengths_ms,
            beat_ms=beat_ms,
            serves=json.dumps(serves),
            log_level=session.log.getEffectiveLevel(),
            until_empty=until_empty,
        )

    def _leave(self, session: Session) -> None:
        """Off the list, and the log left short for whoever comes next; best effort."""
        try:
            session.store.workers.retire(self.name, session.now())
            session.store.flush_wal("passive")
        except OutlastError as error:
            session.log.info("after the last task: %s", error)


def _name_of_this_thread() -> str:
    name = f"worker-{socket.gethostname()}-{os.getpid()}"
    is_main = threading.current_thread() is threading.main_thread()
    return name if is_main else f"{name}-{threading.get_native_id()}"


@contextmanager
def stopped_by_signals(stop: Callable[[bool], None]) -> Iterator[None]:
    """In the main thread, the two signals that ask a process to end; elsewhere nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    count, pid = 0, os.getpid()

    def answer(number: int, frame: FrameType | None) -> None:
        nonlocal count
        if os.getpid() != pid:
            # A process that a handler forked is not the worker, and ends as others do.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        count += 1
        stop(count > 1)

    before = {number: signal.signal(number, answer) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            # None: it was not set by Python, which cannot set it again.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
