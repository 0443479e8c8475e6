"""What an operator sees and says: locks, silent tasks, progress, views that go on, Ctrl-C."""

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast import Outlast, PreviousStop
from outlast.cli.commands.worker import progress_words
from outlast.cli.exits import Exit
from outlast.testing import ManualClock
from tests.cli.conftest import Call
from tests.cli.shell import DEADLINE_SECONDS, Terminal, command, environment

pytestmark = pytest.mark.slow

JOBS = """
import time
from pathlib import Path
from outlast import Outlast

app = Outlast("work.db")

@app.task
def wait(ctx) -> str:
    ctx.progress(30, 120, "embedding")
    Path("begun").touch()
    while not Path("go").exists() and not ctx.cancelled:
        time.sleep(0.01)
    return "done"
"""


@pytest.mark.proves("OBS-16")
def test_a_lock_is_stale_only_if_it_is_there_and_its_time_has_passed(
    outlast: Call, app: Outlast, clock: ManualClock
) -> None:
    app.open()
    nameless = outlast("lock", "check", "")
    assert (nameless.code, nameless.out) == (Exit.USAGE, "")
    free = outlast("lock", "check")
    assert (free.code, free.out) == (Exit.FINE, "lock default is free\n")
    app.lock("render", ttl=60, holder="w1").acquire()
    held = outlast("lock", "check", "render", "--json")
    assert (held.code, held.data) == (
        Exit.FINE, {"name": "render", "state": "held", "stale": False},
    )  # fmt: skip
    clock.advance("1m")
    stale = outlast("lock", "check", "render", "--json")
    assert (stale.code, stale.data["state"], stale.data["stale"]) == (Exit.NO, "stale", True)


@pytest.mark.proves("CLI-09")
@pytest.mark.parametrize("option", ["--threshold", "--older-than"])
def test_reclaim_takes_back_what_was_silent_for_the_threshold(
    outlast: Call, make_app: Callable[..., Outlast], clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch, option: str,
) -> None:  # fmt: skip
    """With recovery switched off, or opening the store would do it, whatever the threshold."""
    monkeypatch.setenv("OUTLAST_RECOVERY_ENABLED", "false")
    app = make_app(recovery_mode="off")
    app.enqueue("index", id="t1")
    app.claim("w1", lease="1m")
    clock.advance("5m")
    assert outlast("queue", "reclaim", option, "301", "--json").data == {"reclaimed": 0}
    assert app.get("t1").status == "running"
    assert outlast("queue", "reclaim", option, "5m", "--json").data == {"reclaimed": 1}
    assert app.get("t1").status == "pending"


@pytest.mark.parametrize("threshold", ["²", "five", "5 m 3", "."])
def test_reclaim_refuses_a_threshold_that_is_no_duration(
    outlast: Call, app: Outlast, threshold: str
) -> None:
    app.open()
    refused = outlast("queue", "reclaim", "--older-than", threshold)
    assert refused.code == Exit.USAGE
    assert "must look like" in refused.err


def test_reclaim_counts_what_its_own_opening_took_back(
    outlast: Call, make_app: Callable[..., Outlast], clock: ManualClock
) -> None:
    app = make_app(heal_at_claim=False)
    app.enqueue("index", id="t1")
    app.claim("w1", lease="1m")
    clock.advance("5m")
    said = outlast("queue", "reclaim", "--threshold", "60")
    assert said.out == "1 task was taken back.\n"
    assert app.get("t1").recovery_count == 1


@pytest.mark.proves("CLI-09")
def test_a_dry_run_of_heal_shows_its_figures_and_changes_nothing(
    outlast: Call, make_app: Callable[..., Outlast], clock: ManualClock
) -> None:
    app = make_app(heal_at_claim=False)
    app.enqueue("index", id="t1")
    app.claim("w1", lease="1m")
    clock.advance("5m")
    dry = outlast("queue", "heal", "--dry-run", "--json").data
    assert (dry["entries_reclaimed"], dry["is_dry_run"]) == (1, True)
    assert app.get("t1").status == "running"
    done = outlast("queue", "heal", "--json").data
    assert (done["entries_reclaimed"], done["is_dry_run"]) == (1, False)
    assert app.get("t1").status == "pending"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (None, ""),
        ("half way", "half way"),
        ({"page": 3, "of": "a.pdf"}, "page: 3, of: a.pdf"),
        ([1, 2], "[1, 2]"),
        (0.5, "0.5"),
        ([], ""),
        (
            [
                {"task_id": "t1", "done": 30, "total": 120, "note": "embedding"},
                {"task_id": "t2", "done": 7, "total": None, "note": None},
                {"task_id": "t3", "done": 1, "total": 0, "note": None},
            ],
            "t1 30 of 120 (25%), embedding; t2 7; t3 1",
        ),
    ],
)
def test_progress_is_shown_in_words(said: object, words: str) -> None:
    assert progress_words(said) == words


@pytest.mark.parametrize("words", [("health",), ("queue", "recovery-status"), ("queue", "events")])
def test_a_view_is_watched_until_ctrl_c_which_ends_it_with_0(
    database: Path, words: tuple[str, ...]
) -> None:
    with Outlast(database) as app:
        app.enqueue("index")
    process = subprocess.Popen(
        command(*words, "--watch", "0.05", "--json", "--store", database),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(database.parent),
    )  # fmt: skip
    assert process.stdout is not None
    first, second = (json.loads(process.stdout.readline()) for _ in range(2))
    assert type(first) is type(second)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=DEADLINE_SECONDS)
    assert (process.returncode, errors) == (0, "")


def test_watching_events_and_following_them_are_not_both_possible(
    outlast: Call, app: Outlast
) -> None:
    app.open()
    said = outlast("queue", "events", "--watch", "--follow")
    assert (said.code, said.err.count("\n")) == (Exit.USAGE, 1)
    assert "leave --follow and --after out" in said.err


def _worker_at_work(folder: Path) -> "subprocess.Popen[str]":
    (folder / "jobs.py").write_text(JOBS)
    with Outlast(folder / "work.db") as app:
        app.enqueue("wait", id="t1")
    return subprocess.Popen(
        command("worker", "run", "jobs.py", "--name", "w1"),
        cwd=folder, env=environment(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def _until(fact: Callable[[], bool]) -> None:
    import time

    ends_at = time.monotonic() + DEADLINE_SECONDS
    while not fact():
        assert time.monotonic() < ends_at
        time.sleep(0.01)


@pytest.mark.proves("CLI-05")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_is_told_to_stop_says_so_and_leaves_a_clean_store(
    tmp_path: Path, number: signal.Signals
) -> None:
    process = _worker_at_work(tmp_path)
    try:
        _until((tmp_path / "begun").exists)
        process.send_signal(number)
        assert process.stderr is not None
        assert process.stderr.readline() == (
            "outlast: stopping; what is running may finish, Ctrl-C again gives it back at once\n"
        )
        (tmp_path / "go").touch()
        process.communicate(timeout=DEADLINE_SECONDS)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    with Outlast(tmp_path / "work.db") as app:
        assert app.get("t1").result == "done"
        report = app.last_report()
        assert report is not None
        assert report.previous is PreviousStop.CLEAN
        assert (report.tasks_put_back, report.dead_workers) == (0, ())


def test_a_second_signal_is_acknowledged_too_and_gives_the_task_back(tmp_path: Path) -> None:
    process = _worker_at_work(tmp_path)
    try:
        _until((tmp_path / "begun").exists)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert "stopping" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=DEADLINE_SECONDS)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, rest) == (0, "outlast: giving back what is running\n")
    task = Outlast(tmp_path / "work.db").get("t1")
    assert (task.status, task.attempt) == ("pending", 0)


def test_on_a_terminal_ctrl_c_is_answered_at_once(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(JOBS)
    with Outlast(tmp_path / "work.db") as app:
        app.enqueue("wait", id="t1")
    with Terminal(tmp_path, "up", "jobs.py") as terminal:
        _until((tmp_path / "begun").exists)
        terminal.process.send_signal(signal.SIGINT)
        terminal.until("outlast: stopping; what is running may finish")
        (tmp_path / "go").touch()
        assert terminal.finish() == 0
    assert "1 completed" in terminal.seen
