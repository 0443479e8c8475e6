"""A worker's link to its store process: it starts it, replaces it, and carries the messages."""

import contextlib
import dataclasses
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from outlast.clock import SystemClock
from outlast.errors import OutlastError
from outlast.host import polling
from outlast.settings import Settings
from outlast.store.records import Principal
from outlast.store.session import Session
from outlast.worker.messages import Begin, News, Report, Wire
from outlast.worker.store_process import StoreProcess

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0
STEADY_SECONDS = 10.0
GOODBYE_SECONDS = 5.0

# The store process needs this process's `sys.path` and none of what start-up files may do.
PROGRAM = (
    "import sys; sys.path[:] = sys.argv[2:];"
    " from outlast.app.store_process_main import main; main(int(sys.argv[1]))"
)


class StoreLink:
    """The worker's end of the link. The thread that makes it must live as long as the store process
    is needed: the kernel ends a store process with the thread that started it."""

    def __init__(self, session: Session, terms: Begin) -> None:
        self._session = session
        self._terms = terms
        self._wire: Wire[News] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._pause_seconds = FIRST_PAUSE_SECONDS
        self.starts_at = 0.0
        """When a store process may be started; after one died, not at once."""
        self._started_at = 0.0
        self._has_started = False

    @property
    def is_up(self) -> bool:
        """Whether there is a store process to write to."""
        return self._wire is not None

    @property
    def pid(self) -> int | None:
        """The store process's process, if it is one."""
        return self._process.pid if self._process else None

    def fileno(self) -> int:
        """What to wait on while it is up."""
        assert self._wire is not None
        return self._wire.fileno()

    def start(self, principal: Principal) -> None:
        """Start a store process that acts for this worker."""
        ours, theirs = socket.socketpair()
        self._started_at = time.monotonic()
        begin = msgspec.structs.replace(
            self._terms,
            row=principal.row,
            incarnation=principal.incarnation,
            pid=os.getpid(),
            is_successor=self._has_started,
        )
        self._has_started = True
        self._wire = Wire(ours, News)
        if type(self._session.clock) is SystemClock:
            self._start_process(theirs, begin)
        else:
            self._start_thread(theirs, begin)

    def _start_process(self, theirs: socket.socket, begin: Begin) -> None:
        assert self._wire is not None
        with theirs:
            number = theirs.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", PROGRAM, str(number), *sys.path],
                pass_fds=[number],
                stdin=subprocess.DEVNULL,
            )
        self._wire.send(begin)

    def _start_thread(self, theirs: socket.socket, begin: Begin) -> None:
        """Serve in a thread: a clock that is not the system's exists in this process alone."""
        store_process = StoreProcess(Wire(theirs, Report), self._session, begin, lambda: True)

        def serve() -> None:
            with contextlib.closing(theirs):
                try:
                    store_process.run()
                except OutlastError as error:
                    self._session.log.warning("the store process ends: %s", error)

        thread = threading.Thread(target=serve, name="outlast-store-process", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            theirs.close()
            raise
        self._thread = thread

    def send(self, report: Report) -> None:
        """Write to the store process."""
        assert self._wire is not None
        self._wire.send(report)

    def news(self) -> list[News]:
        """What the store process wrote; EOFError when it is gone."""
        assert self._wire is not None
        self._wire.flush()
        try:
            return self._wire.messages()
        except (OSError, msgspec.MsgspecError) as error:
            raise EOFError from error

    @property
    def has_unsent(self) -> bool:
        """Whether the store process is slow to read."""
        return self._wire is not None and self._wire.has_unsent

    def wait(self, descriptor: int, now: float, until: float) -> None:
        """Sleep until the descriptor or the store process has something, or can be sent more, or
        until then; without a store process, only until the next one may be started."""
        if not self.is_up:
            until = max(now + 0.01, min(until, self.starts_at))
            polling.wait_until_readable([descriptor], until - now)
            return
        ours = self.fileno()
        polling.wait_until_readable(
            [descriptor, ours], until - now, {ours} if self.has_unsent else ()
        )

    def drop(self) -> None:
        """Give the store process up; the next one waits a little if this one was short-lived."""
        now = time.monotonic()
        if now - self._started_at > STEADY_SECONDS:
            self._pause_seconds = FIRST_PAUSE_SECONDS
        self.starts_at = now + self._pause_seconds
        self._pause_seconds = min(self._pause_seconds * 2, LONGEST_PAUSE_SECONDS)
        self.close(timeout_seconds=0.0)

    def close(self, timeout_seconds: float = GOODBYE_SECONDS) -> None:
        """Close the socket and wait for the store process to end."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None
        process, self._process = self._process, None
        thread, self._thread = self._thread, None
        if process is not None:
            try:
                process.wait(timeout_seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if thread is not None:
            thread.join(max(timeout_seconds, 1.0))


def plain_settings(settings: Settings, **changes: Any) -> dict[str, Any]:
    """Settings as they travel in a message."""
    values = {one.name: getattr(settings, one.name) for one in dataclasses.fields(settings)}
    plain = {k: dict(v) if isinstance(v, Mapping) else v for k, v in values.items()}
    return plain | changes
