"""What systemd is told, through the socket that it names."""

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast
from outlast.worker import store_link
from tests.worker.shift import Gate, Shift, eventually


class Manager:
    """systemd's end of the socket."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address)
        self._socket.setblocking(False)
        self.heard: list[tuple[float, str]] = []

    def words(self) -> list[str]:
        """Everything that was said so far."""
        while True:
            try:
                text = self._socket.recv(4096).decode()
            except BlockingIOError:
                return [word for _, word in self.heard]
            self.heard.extend((time.monotonic(), word) for word in text.split("\n"))

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    """In a folder with a short name: a socket's path has at most 108 bytes."""
    with tempfile.TemporaryDirectory() as folder:
        address = str(Path(folder) / "notify")
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        made = Manager(address)
        yield made
        made.close()


@pytest.fixture
def app(live: Outlast) -> Outlast:
    @live.task
    def work() -> None:
        return None

    return live


def test_ready_is_said_once_the_worker_can_work_and_not_before(
    app: Outlast, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, before = subprocess.Popen, list[list[str]]()

    def popen(*arguments: Any, **options: Any) -> Any:
        before.append(manager.words())
        if len(before) == 1:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return real(*arguments, **options)

    monkeypatch.setattr(subprocess, "Popen", popen)
    with Shift(app.worker()) as shift:
        eventually(lambda: "READY=1" in manager.words())
        assert before == [[], []], "without a store process a worker can do nothing"
        app.enqueue("work").wait(30)
        shift.worker.stop()
        shift.ended()
    words = manager.words()
    assert words.count("READY=1") == words.count("STOPPING=1") == 1
    assert words[-1] == "STOPPING=1"


@pytest.mark.slow
def test_a_store_process_that_only_tells_of_trouble_does_not_make_a_worker_ready(
    app: Outlast, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A unit that is reported as started must have started."""
    real, starts = store_link.StoreLink.start, []

    def start_for_another_store(link: Any, principal: Any) -> None:
        starts.append(1)
        link._terms.path = str(app.path) + "-elsewhere/none.db"
        real(link, principal)

    monkeypatch.setattr(store_link.StoreLink, "start", start_for_another_store)
    with Shift(app.worker()) as shift:
        eventually(lambda: len(starts) >= 3)
        assert manager.words() == []
        shift.worker.stop(at_once=True)
        shift.ended()
    assert "READY=1" not in manager.words()


@pytest.mark.slow
def test_the_watchdog_is_fed_in_time_even_while_handlers_are_busy_and_while_it_stops(
    app: Outlast, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "1000000")
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    gate = Gate()

    @app.task
    def long() -> None:
        gate.enter()

    long.enqueue()
    with Shift(app.worker()) as shift:
        gate.wait_for(1)
        eventually(lambda: manager.words().count("WATCHDOG=1") >= 3)
        shift.worker.stop()
        eventually(lambda: "STOPPING=1" in manager.words())
        fed = manager.words().count("WATCHDOG=1")
        eventually(lambda: manager.words().count("WATCHDOG=1") >= fed + 2)
        gate.open()
        shift.ended()
    words = manager.words()
    assert words[0] == "READY=1"
    assert words.count("STOPPING=1") == 1
    times = [at for at, word in manager.heard if word == "WATCHDOG=1"]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert max(gaps) < 1.0, "at half of the time, so that a little delay does no harm"


def test_a_watchdog_of_another_process_is_not_fed(
    app: Outlast, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "100000")
    monkeypatch.setenv("WATCHDOG_PID", "1")
    app.enqueue("work")
    app.worker().run(until_empty=True)
    assert manager.words().count("WATCHDOG=1") <= 1


def test_an_abstract_socket_is_told_too(app: Outlast, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"outlast-test-{os.getpid()}-{time.monotonic_ns()}"
    monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
    manager = Manager(f"\0{name}")
    app.worker().run(until_empty=True)
    assert manager.words()[0] == "READY=1"
    manager.close()


def test_a_socket_that_nobody_listens_to_hinders_nobody(
    app: Outlast, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    app.enqueue("work")
    assert app.worker().run(until_empty=True).completed == 1
