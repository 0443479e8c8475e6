"""Jobs in the background: done soon, all of them, whatever becomes of their threads."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from outlast.store.sqlite.background import THREADS, Background

PATIENCE_SECONDS = 30


def test_jobs_that_take_long_hold_up_no_other() -> None:
    """Guards flushes from waiting for coroutines, which are led for as long as there are any."""
    background, may_end = Background(), threading.Event()
    begun = [threading.Event() for _ in range(THREADS)]

    def job(event: threading.Event) -> None:
        event.set()
        may_end.wait(PATIENCE_SECONDS)

    for event in begun:
        background.later(lambda event=event: job(event))  # type: ignore[misc]
    assert all(event.wait(PATIENCE_SECONDS) for event in begun)
    may_end.set()
    background.close()


def test_closing_lets_what_was_asked_for_be_done() -> None:
    """Guards the last flush, and the answers of coroutines that wait."""
    background, done = Background(), list[int]()
    for number in range(50):
        background.later(lambda number=number: done.append(number))  # type: ignore[misc]
    background.close()
    assert sorted(done) == list(range(50))
    background.later(lambda: done.append(-1))
    assert done[-1] == -1, "afterwards it is done at once"


def test_a_job_that_fails_ends_no_thread(caplog: pytest.LogCaptureFixture) -> None:
    """Guards the jobs that come after it."""
    background, done = Background(), threading.Event()

    def fail() -> None:
        raise SystemExit

    for _ in range(THREADS):
        background.later(fail)
    background.later(done.set)
    assert done.wait(PATIENCE_SECONDS)
    background.close()
    assert "a job in the background failed" in caplog.text


def test_a_thread_that_is_struck_while_it_starts_is_ended_with_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Guards close() from waiting for ever for one that was told to end in another's place."""
    background = Background()
    start = threading.Thread.start

    def struck(thread: threading.Thread) -> None:
        start(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", struck)
    with pytest.raises(KeyboardInterrupt):
        background.later(lambda: None)
    monkeypatch.undo()
    done = threading.Event()
    background.later(done.set)
    assert done.wait(PATIENCE_SECONDS)
    closing = threading.Thread(target=background.close, daemon=True)
    closing.start()
    closing.join(PATIENCE_SECONDS)
    assert not closing.is_alive()
    assert not [one for one in threading.enumerate() if one.name.startswith("outlast_")]


def test_where_no_thread_can_be_started_a_job_is_done_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Guards flushes at the end of the interpreter, and in a process that has no more threads."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    background, done = Background(), list[str]()
    background.later(lambda: done.append("done"))
    assert done == ["done"]
    background.close()


def test_a_program_that_ends_without_closing_is_not_held_up(tmp_path: Path) -> None:
    """Guards the end of the interpreter from waiting for threads that nobody ends."""
    program = (
        "import asyncio, sys\n"
        "from outlast import AsyncOutlast\n"
        "async def main():\n"
        "    await AsyncOutlast(sys.argv[1]).enqueue('work')\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "work.db")]
    assert subprocess.run(command, timeout=PATIENCE_SECONDS, check=False).returncode == 0
