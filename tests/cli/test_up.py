"""`outlast up` and `outlast worker run`: real workers, real signals, real kills."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from outlast import Outlast, Settings
from tests.cli.shell import DEADLINE_SECONDS, Terminal, command, environment, piped
from tests.support.foreign import assert_sound, foreign_rows, foreign_statuses

pytestmark = pytest.mark.slow

PROGRAM = '''
import os, time
from pathlib import Path
from outlast import Outlast

app = Outlast("work.db")

@app.task
def greet(name: str = "you") -> str:
    return f"hello {name}"

@app.task(max_retries=0)
def refuse(word: str) -> None:
    raise ValueError(word)

@app.task
def hold(name: str) -> str:
    """Says that it began, and waits for leave to end."""
    Path(f"{name}.began").touch()
    while not Path(f"{name}.leave").exists():
        time.sleep(0.01)
    return "left"

@app.task
def talk(word: str) -> None:
    print(word)
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "jobs.py").write_text(PROGRAM)
    return tmp_path


@pytest.fixture
def store(folder: Path) -> Iterator[Outlast]:
    # It must not take back what a killed worker held before a command has shown it.
    app = Outlast(folder / "work.db", settings=Settings(detection_interval_seconds=0))
    yield app
    app.close()


@contextmanager
def started(folder: Path, *words: str) -> Iterator["subprocess.Popen[str]"]:
    """The command at work; whatever happens, it does not outlive its test."""
    process = subprocess.Popen(
        command(*words),
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=DEADLINE_SECONDS)


def await_file(path: Path) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not path.exists():
        assert time.monotonic() < deadline, f"{path.name} never came"
        time.sleep(0.01)


def alike(text: str) -> str:
    return re.sub(r"in [\d.]+m?s$", "in SECONDS", text, flags=re.MULTILINE)


def test_up_makes_the_store_works_until_it_is_empty_and_sums_up(folder: Path) -> None:
    done = piped(folder, "up", "jobs.py", "--until-empty", "--name", "w1")
    assert (done.returncode, done.stderr) == (0, "")
    assert alike(done.stdout).splitlines()[-2:] == [
        "worker w1: 0 completed in SECONDS",
        "the store holds no tasks",
    ]
    assert (folder / "work.db").exists()


@pytest.mark.parametrize("words", [("up",), ("worker", "run")])
def test_the_summary_counts_what_was_done_and_failures_show_in_the_code(
    folder: Path, store: Outlast, words: tuple[str, ...]
) -> None:
    store.enqueue_many("greet", [{"name": name} for name in ("Ada", "Bob", "Cy")])
    store.enqueue("refuse", {"word": "no"}, max_retries=0, id="t1")
    done = piped(folder, *words, "jobs:app", "--until-empty", "--name", "w1")
    assert done.returncode == 1
    assert alike(done.stdout).splitlines()[-3:] == [
        "worker w1: 3 completed, 1 failed attempt in SECONDS",
        "1 task failed for good: outlast task list --status failed shows why",
        "the store holds 3 completed, 1 failed",
    ]
    assert (store.get("t1").error or "").startswith("ValueError: no")
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("words", [("up",), ("worker", "run")])
def test_with_json_the_summary_is_the_only_document(
    folder: Path, store: Outlast, words: tuple[str, ...]
) -> None:
    store.enqueue("greet", {"name": "Ada"})
    store.enqueue("greet", {"name": "Bob"}, queue="slow")
    store.enqueue("greet", {"name": "Cy"}, queue="other")
    queues = ("--queue", "default", "--queue", "slow")
    done = piped(folder, *words, "jobs", "--until-empty", "--json", "--name", "w1", *queues)
    data = json.loads(done.stdout)
    assert data.pop("seconds") > 0
    assert data == {
        "worker": "w1", "completed": 2, "failed_attempts": 0, "released": 0, "failed_tasks": 0,
        "counts": {"pending": 1, "running": 0, "completed": 2, "failed": 0, "cancelled": 0},
    }  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("words", [("up",), ("worker", "run")])
@pytest.mark.proves("CLI-05")
def test_a_worker_that_is_told_to_stop_finishes_what_it_began_and_leaves_in_order(
    folder: Path, store: Outlast, words: tuple[str, ...], number: int
) -> None:
    """Stopping leaves a clean mark: the worker has left, holds nothing and nothing is orphaned."""
    store.enqueue("hold", {"name": "first"}, id="t1")
    store.enqueue("hold", {"name": "second"}, id="t2")
    with started(folder, *words, "jobs.py", "--concurrency", "1", "--name", "w1") as process:
        await_file(folder / "first.began")
        assert [one.state for one in store.workers() if one.name == "w1"] == ["alive"]
        process.send_signal(number)
        (folder / "first.leave").touch()
        out, err = process.communicate(timeout=DEADLINE_SECONDS)
        assert process.returncode == 0
        (line,) = err.splitlines()
        assert line.startswith("outlast: stopping; ")
        assert "worker w1: 1 completed" in out
    assert store.get("t1").result == "left"
    left = store.get("t2")
    assert (left.status, left.attempt, left.recovery_count) == ("pending", 0, 0)
    assert not (folder / "second.began").exists()
    (row,) = [one for one in store.workers() if one.name == "w1"]
    assert (row.state, row.task_count) == ("left", 0)
    assert row.ended_at is not None
    store.close()
    assert not list((folder / "work.db-outlast" / "workers").glob("*.lock"))
    assert_sound(store.path)


def test_a_second_signal_gives_everything_back_at_once_and_uncharged(
    folder: Path, store: Outlast
) -> None:
    store.enqueue("hold", {"name": "first"}, id="t1")
    with started(folder, "worker", "run", "jobs.py") as process:
        await_file(folder / "first.began")
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=DEADLINE_SECONDS)
        assert process.returncode == 0
    task = store.get("t1")
    assert (task.status, task.attempt, task.recovery_count) == ("pending", 0, 0)


def test_up_takes_up_what_a_killed_one_left_and_says_so(folder: Path, store: Outlast) -> None:
    store.enqueue("hold", {"name": "first"}, id="t1")
    store.enqueue_many("greet", [{"name": str(n)} for n in range(20)])
    store.close()
    with started(folder, "up", "jobs.py", "--concurrency", "1") as process:
        await_file(folder / "first.began")
        os.kill(process.pid, signal.SIGKILL)
        process.wait(DEADLINE_SECONDS)
    (folder / "first.leave").touch()
    done = piped(folder, "up", "jobs.py", "--until-empty")
    assert done.returncode == 0
    assert "is dead" in done.stderr
    assert "Traceback" not in done.stderr
    assert set(foreign_statuses(folder / "work.db").values()) == {"completed"}
    rows = foreign_rows(folder / "work.db", "SELECT attempt, recovery_count FROM tasks")
    assert [2, 1] in rows
    assert rows.count([1, 0]) == 20
    shown = piped(folder, "task", "show", "t1", "--store", "work.db").stdout
    assert "pending again: crash retry, by system/recovery" in shown


def test_in_a_pipe_progress_comes_as_lines_and_what_handlers_print_stays_whole(
    folder: Path, store: Outlast
) -> None:
    store.enqueue("hold", {"name": "first"})
    with started(folder, "up", "jobs.py", "--until-empty") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("serving ")
        assert process.stdout.readline().endswith("waiting\n")
        (folder / "first.leave").touch()
    store.enqueue("talk", {"word": "[bold]spoken[/bold]"})
    out = piped(folder, "up", "jobs.py", "--until-empty").stdout
    assert "[bold]spoken[/bold]\n" in out


def test_on_a_terminal_there_is_a_bar_and_then_the_summary(folder: Path, store: Outlast) -> None:
    store.enqueue("hold", {"name": "first"})
    store.enqueue("talk", {"word": "[bold]spoken[/bold]"})
    with Terminal(folder, "up", "jobs.py", "--until-empty", "--name", "w1") as terminal:
        terminal.until("1 completed, 1 running, 0 waiting")
        (folder / "first.leave").touch()
        assert terminal.finish() == 0
    assert "━" in terminal.seen
    assert "[bold]spoken[/bold]" in terminal.seen
    assert "worker w1: 2 completed" in terminal.seen


def test_ctrl_c_on_a_terminal_stops_politely(folder: Path, store: Outlast) -> None:
    with Terminal(folder, "up", "jobs.py", "--name", "w1") as terminal:
        terminal.until("0 completed")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.finish() == 0
    assert "worker w1: 0 completed" in terminal.seen
    assert "Traceback" not in terminal.seen


def test_a_store_option_that_contradicts_the_program_is_refused(folder: Path) -> None:
    done = piped(folder, "up", "jobs.py", "--store", "other.db", "--until-empty")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "work.db" in done.stderr
    assert not (folder / "other.db").exists()
    same = piped(folder, "up", "jobs.py", "--store", "work.db", "--until-empty")
    assert same.returncode == 0


def test_the_settings_file_reaches_the_program(folder: Path) -> None:
    (folder / "mine.toml").write_text("max_retries = 7\n")
    (folder / "adds.py").write_text(PROGRAM + "\napp.enqueue('greet', {}, id='t1')\n")
    piped(folder, "up", "adds.py", "--until-empty", "--settings", "mine.toml")
    rows = foreign_rows(folder / "work.db", "SELECT max_retries FROM tasks WHERE id = 't1'")
    assert rows == [[7]]


def test_a_program_without_functions_is_told_in_one_sentence(folder: Path) -> None:
    (folder / "empty.py").write_text('from outlast import Outlast\napp = Outlast("work.db")\n')
    done = piped(folder, "up", "empty.py", "--until-empty")
    assert (done.returncode, done.stdout) == (2, "")
    assert "@app.task" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_a_living_worker_is_listed_with_what_it_serves_holds_and_its_beat(
    folder: Path, store: Outlast
) -> None:
    store.enqueue("hold", {"name": "first"}, id="t1")
    with started(folder, "worker", "run", "jobs.py", "--name", "w1") as process:
        await_file(folder / "first.began")
        words = ("worker", "list", "--store", "work.db", "--json")
        (row,) = json.loads(piped(folder, *words).stdout)
        assert (row["name"], row["state"], row["pid"]) == ("w1", "alive", process.pid)
        assert row["serves"] == {
            "queues": ["default"],
            "kinds": ["greet", "refuse", "hold", "talk"],
            "concurrency": 8,
        }
        assert row["task_ids"] == ["t1"]
        assert 0 <= row["silent_seconds"] < DEADLINE_SECONDS
        health = piped(folder, "health", "--store", "work.db")
        assert (health.returncode, "1 worker alive" in health.stdout) == (0, True)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(DEADLINE_SECONDS)
    (row,) = json.loads(piped(folder, *words).stdout)
    assert (row["state"], row["ended_at"], row["task_count"]) == ("dead", None, 1)
    health = piped(folder, "health", "--store", "work.db")
    assert health.returncode == 1
    assert "recovery is due" in health.stdout
    assert f"worker w1 (pid {process.pid}) died with 1 task" in health.stdout


def test_a_worker_says_what_it_serves_and_what_waits_unserved(folder: Path, store: Outlast) -> None:
    store.enqueue("greet", {"name": "Ada"}, id="t1")
    store.enqueue("nobody knows")
    store.enqueue("greet", {"name": "Bob"}, queue="elsewhere")
    done = piped(folder, "worker", "run", "jobs.py", "--until-empty")
    serving, unknown, elsewhere, *_ = done.stdout.splitlines()
    assert re.fullmatch(r"serving .* from queue default of \S+/work\.db", serving)
    assert unknown == "waiting for a worker that knows their kind: nobody knows (1)"
    assert elsewhere == "1 task in other queues: --queue NAME serves them"


def test_progress_goes_on_from_what_the_store_holds(folder: Path, store: Outlast) -> None:
    store.enqueue("greet", {"name": "Ada"})
    piped(folder, "up", "jobs.py", "--until-empty")
    again = piped(folder, "up", "jobs.py", "--until-empty")
    assert again.stdout.splitlines()[1].startswith("1 completed, 0 running, 0 waiting")
