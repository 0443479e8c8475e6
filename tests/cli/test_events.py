"""`outlast queue events`: a line an event, for people and for machines, once or as it happens."""

import json
import signal
import subprocess
from pathlib import Path

import pytest

from outlast import Outlast
from outlast.cli.exits import Exit
from outlast.testing import ManualClock
from tests.cli.conftest import Call
from tests.cli.shell import DEADLINE_SECONDS, Terminal, command, environment

pytestmark = pytest.mark.slow


@pytest.fixture
def lived(app: Outlast, clock: ManualClock) -> Outlast:
    """A store in which a task was completed and another one failed."""
    app.enqueue("mail", {"to": "a secret"}, id="t1")
    clock.advance("1s")
    (lease,) = app.claim("w1")
    clock.advance("1s")
    lease.complete()
    app.enqueue("mail", id="t2")
    clock.advance("1s")
    app.fail("t2", "no \x1b[31mpaper\nat all")
    return app


def test_each_event_is_a_line_with_time_cursor_kind_and_task(outlast: Call, lived: Outlast) -> None:
    said = outlast("queue", "events")
    assert said.code == Exit.FINE
    lines = said.out.splitlines()
    assert len(lines) == len(lived.events())
    for line, event in zip(lines, lived.events(), strict=True):
        assert line.split()[1:3] == [str(event.cursor), event.kind]
    assert "secret" not in said.out
    assert "\x1b" not in said.out
    assert "error=no \\x1b[31mpaper" in lines[-1]


def test_json_is_one_list(outlast: Call, lived: Outlast) -> None:
    documents = outlast("queue", "events", "--json").data
    assert [one["kind"] for one in documents] == [event.kind for event in lived.events()]
    assert set(documents[-1]) == {
        "cursor", "kind", "at", "task_id", "task_kind", "queue", "worker", "run_id", "data"
    }  # fmt: skip
    assert documents[-1]["task_id"] == "t2"


def test_some_of_them_are_chosen(outlast: Call, lived: Outlast) -> None:
    def kinds(*words: str) -> list[str]:
        return [one["kind"] for one in outlast("queue", "events", "--json", *words).data]

    assert kinds("--task", "t2") == ["task.enqueued", "task.failed"]
    assert kinds("--kind", "task.failed", "--kind", "recovery.*") == [
        "recovery.started",
        "recovery.completed",
        "task.failed",
    ]
    assert kinds("--last", "1") == ["task.failed"]
    completed = lived.events(kinds="task.completed")[0].cursor
    assert kinds("--after", str(completed)) == ["task.enqueued", "task.failed"]


def test_a_place_that_is_none_and_a_store_that_is_not_there_are_said(
    outlast: Call, database: Path
) -> None:
    said = outlast("queue", "events")
    assert (said.code, said.out) == (Exit.NO_STORE, "")
    Outlast(database).open().close()
    said = outlast("queue", "events", "--after", "there")
    assert said.code == Exit.USAGE
    assert "such as 120.45" in said.err


def test_following_shows_what_happens_and_ctrl_c_ends_it_with_0(app: Outlast) -> None:
    app.enqueue("mail", id="before")
    process = subprocess.Popen(
        command("queue", "events", "--follow", "--json", "--kind", "task.*", "--store", app.path),
        cwd=app.path.parent,
        env=environment(app.path.parent),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["task_id"] == "before"
        app.enqueue("mail", id="after")
        assert json.loads(process.stdout.readline())["task_id"] == "after"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=DEADLINE_SECONDS)
        assert (process.returncode, out, err) == (0, "", "")
    finally:
        process.kill()
        process.wait(DEADLINE_SECONDS)


def test_on_a_terminal_it_is_coloured_and_ends_on_ctrl_c(app: Outlast) -> None:
    app.enqueue("mail", id="t1")
    app.fail("t1", "no")
    words = ("queue", "events", "--follow", "--store", app.path)
    with Terminal(app.path.parent, *words) as terminal:
        assert "\x1b[31mtask.failed" in terminal.until("task.failed")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.finish() == 0
