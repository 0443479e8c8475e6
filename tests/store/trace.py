"""Listens to every connection of this process: which statements ran, in how many steps."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import apsw
import pytest


class Ran(NamedTuple):
    """A statement that ran to its end; steps are those of SQLite's virtual machine."""

    text: str
    steps: int


class Trace:
    """Collects while it listens; hooks itself into connections as they are made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ran: list[Ran] | None = None
        monkeypatch.setattr(apsw, "connection_hooks", [self._hook])

    def _hook(self, connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, self._ended, id=self)

    def _ended(self, event: dict[str, Any]) -> None:
        # The detector looks whenever it comes to it, and no test counts what its thread asks.
        is_detector = threading.current_thread().name == "outlast-maintenance"
        if self._ran is not None and not is_detector:
            steps = event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]
            self._ran.append(Ran(event["sql"], steps))

    @contextmanager
    def listening(self) -> Iterator[list[Ran]]:
        ran: list[Ran] = []
        self._ran = ran
        try:
            yield ran
        finally:
            self._ran = None
