"""The command as a process: how fast it starts, what it loads, pipes that close, Ctrl-C."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from outlast import Outlast
from tests.cli.shell import DEADLINE_SECONDS, Terminal, command, environment, piped

pytestmark = pytest.mark.slow

ROUNDS = 4


@pytest.fixture
def store(database: Path) -> Path:
    with Outlast(database) as app:
        app.enqueue("greet", {"name": "Ada"}, id="t1")
    return database


def _loaded_by(folder: Path, *words: str | Path) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *command(*words)[1:]],
        cwd=folder, env=environment(folder), capture_output=True, text=True,
        timeout=DEADLINE_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return set(re.findall(r"\|\s+([\w.]+)$", done.stderr, re.MULTILINE))


def test_the_help_loads_neither_the_store_nor_the_commands(tmp_path: Path) -> None:
    loaded = _loaded_by(tmp_path, "--help")
    assert "outlast.cli.main" in loaded
    assert not loaded & {"apsw", "rich", "asyncio", "outlast.store.store"}
    assert not {name for name in loaded if name.startswith("outlast.cli.t") and "text" not in name}


def test_what_goes_into_a_pipe_is_drawn_without_rich(store: Path) -> None:
    for words in (("task", "list"), ("health", "--json"), ("task", "show", "t1")):
        assert "rich" not in _loaded_by(store.parent, *words, "--store", store)


def _cost_ms(folder: Path, call: list[str]) -> float:
    """The processor's time over that of a bare Python: waiting for other tests is not ours."""

    def best(what: list[str]) -> float:
        return min(_seconds(folder, what) for _ in range(ROUNDS))

    return (best(call) - best([sys.executable, "-c", "pass"])) * 1000


def _seconds(folder: Path, call: list[str]) -> float:
    """The first of several runs compiles what the others find compiled, as installed code is."""
    compiled = {"PYTHONPYCACHEPREFIX": str(folder / "compiled"), "PYTHONDONTWRITEBYTECODE": ""}
    process = subprocess.Popen(
        call, cwd=folder, env=environment(folder, **compiled), stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return used.ru_utime + used.ru_stime


def test_help_and_health_answer_quickly(store: Path) -> None:
    """The promise is 150 and 250 ms; twice that is allowed here, among other tests."""
    assert _cost_ms(store.parent, command("--help")) < 300
    assert _cost_ms(store.parent, command("health", "--json", "--store", store)) < 500


def test_python_dash_m_and_the_script_are_the_same_command(tmp_path: Path) -> None:
    script = Path(sys.executable).with_name("outlast")
    by_script = subprocess.run(
        [script, "--version"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert piped(tmp_path, "--version").stdout == by_script.stdout
    assert re.fullmatch(r"outlast \d+\.\d+\.\d+\n", by_script.stdout)


def test_without_words_the_help_is_shown(tmp_path: Path) -> None:
    done = piped(tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Usage: outlast" in done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_goes_away_ends_the_command_quietly(database: Path, unbuffered: str) -> None:
    with Outlast(database) as app:
        app.enqueue_many("greet", [None] * 5000)
    process = subprocess.Popen(
        command("task", "list", "--limit", "5000", "--store", database),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=environment(database.parent, PYTHONUNBUFFERED=unbuffered),
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(DEADLINE_SECONDS) == 141
    assert process.stderr.read() == b""
    process.stderr.close()


@pytest.mark.parametrize(
    "words", [("task", "list"), ("queue", "stats"), ("worker", "list"), ("task", "show", "t1")]
)
def test_watching_prints_one_json_document_a_line_until_ctrl_c(
    store: Path, words: tuple[str, ...]
) -> None:
    process = subprocess.Popen(
        command(*words, "--watch", "0.05", "--json", "--store", store),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(store.parent),
    )  # fmt: skip
    assert process.stdout is not None
    first, second = (json.loads(process.stdout.readline()) for _ in range(2))
    assert type(first) is type(second)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=DEADLINE_SECONDS)
    assert (process.returncode, errors) == (0, "")


def test_watching_sees_what_changes_and_ends_with_a_final_task(store: Path) -> None:
    process = subprocess.Popen(
        command("task", "show", "--watch", "t1", "--watch=0.05", "--json", "--store", store),
        stdout=subprocess.PIPE, text=True, env=environment(store.parent),
    )  # fmt: skip
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["status"] == "pending"
    with Outlast(store) as app:
        (lease,) = app.claim("w1")
        lease.complete()
    rest = process.communicate(timeout=DEADLINE_SECONDS)[0].splitlines()
    assert json.loads(rest[-1])["status"] == "completed"
    assert process.returncode == 0


def test_a_watched_view_in_a_pipe_is_plain_and_repeated(store: Path) -> None:
    process = subprocess.Popen(
        command("task", "list", "--watch=0.05", "--store", store),
        stdout=subprocess.PIPE, text=True, env=environment(store.parent),
    )  # fmt: skip
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(6)]
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=DEADLINE_SECONDS)
    assert [line.split()[0] for line in lines if line.strip()] == ["ID", "t1", "ID", "t1"]
    assert "\x1b" not in "".join(lines)


def test_a_terminal_gets_a_table_and_colours_unless_it_wants_none(store: Path) -> None:
    with Outlast(store) as app:
        app.cancel("t1")
    with Terminal(store.parent, "task", "list", "--store", store) as terminal:
        assert terminal.finish() == 0
    assert "━" in terminal.seen or "─" in terminal.seen
    assert "\x1b[33mcancelled" in terminal.seen
    with Terminal(store.parent, "task", "list", "--store", store, NO_COLOR="1") as terminal:
        assert terminal.finish() == 0
    assert "\x1b[3" not in terminal.seen
    assert "cancelled" in terminal.seen


def test_a_table_keeps_to_the_width_of_its_terminal(store: Path) -> None:
    with Outlast(store) as app:
        app.fail("t1", "a very long story " * 30)
    for columns in (60, 140):
        with Terminal(store.parent, "task", "list", "--store", store, columns=columns) as terminal:
            assert terminal.finish() == 0
        shown = re.sub(r"\x1b\[[0-9;]*m", "", terminal.seen)
        assert max(len(line) for line in shown.splitlines()) <= columns


def test_a_watched_view_on_a_terminal_is_redrawn_and_ends_on_ctrl_c(store: Path) -> None:
    with Terminal(store.parent, "task", "list", "--watch", "0.05", "--store", store) as terminal:
        terminal.until("Ctrl-C ends")
        terminal.seen = ""
        terminal.until("\x1b[2J")
        terminal.write("\x03")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.finish() == 0


def test_a_setting_in_the_environment_that_cannot_be_is_told_in_one_sentence(store: Path) -> None:
    done = piped(store.parent, "task", "list", "--store", store, OUTLAST_OPEN_TIMEOUT_SECONDS="x")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_is_of_the_shell(tmp_path: Path, shell: str) -> None:
    done = piped(tmp_path, "completion", shell)
    assert done.returncode == 0
    assert "_OUTLAST_COMPLETE" in done.stdout


def test_a_shell_is_told_commands_options_and_choices(tmp_path: Path) -> None:
    def complete(words: str) -> set[str]:
        count = len(words.split(" ")) - 1
        done = piped(
            tmp_path, _OUTLAST_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(count)
        )
        return {line.partition(",")[2] for line in done.stdout.splitlines()}

    assert complete("outlast ta") == {"task"}
    assert complete("outlast task re") == {"retry"}
    assert complete("outlast task list --st") >= {"--status", "--store"}
    assert complete("outlast task list --status fa") == {"failed"}
