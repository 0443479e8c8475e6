"""`outlast checkpoint`: how far a task was, for those who look into a crash."""

import re
from pathlib import Path

import pytest

from outlast import Outlast
from outlast.cli.exits import Exit
from outlast.testing import ManualClock
from tests.cli.conftest import Call

SECRET = "hunter2-of-the-checkpoint"


@pytest.fixture
def recorded(app: Outlast, clock: ManualClock) -> Outlast:
    """Three pages in a first attempt, then the boundary that its loss leaves, then another page."""
    app.enqueue("ingest", id="t1", group="nightly")
    (lease,) = app.claim("w1", lease="1m")
    for page in range(3):
        lease.checkpoint("iteration_end", {"page": page, "text": SECRET})
    clock.advance("2m")
    app.heal()
    clock.advance("1s")
    (lease,) = app.claim("w2")
    lease.checkpoint("iteration_end", {"page": 3}, metadata={"by": "w2"})
    return app


@pytest.mark.proves("CLI-12")
def test_the_list_shows_number_type_attempt_and_time_of_each_in_order(
    outlast: Call, recorded: Outlast
) -> None:
    data = outlast("checkpoint", "list", "t1", "--json").data
    assert [(one["sequence_number"], one["type"], one["attempt"]) for one in data] == [
        (1, "iteration_end", 1),
        (2, "iteration_end", 1),
        (3, "iteration_end", 1),
        (4, "error_boundary", 1),
        (5, "iteration_end", 2),
    ]
    assert [one["created_at"] for one in data] == [
        one.created_at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        for one in recorded.checkpoints("t1")
    ]
    lines = [line.split() for line in outlast("checkpoint", "list", "t1").out.splitlines()]
    assert lines[0] == ["SEQ", "TYPE", "ATTEMPT", "AT", "SIZE"]
    assert [line[:3] for line in lines[4:]] == [
        ["4", "error_boundary", "1"],
        ["5", "iteration_end", "2"],
    ]


@pytest.mark.proves("CLI-12")
def test_the_list_can_be_of_one_type_and_of_the_newest(outlast: Call, recorded: Outlast) -> None:
    words = ("checkpoint", "list", "t1", "--type", "iteration_end", "--limit", "2")
    assert [one["sequence_number"] for one in outlast(*words, "--json").data] == [3, 5]
    assert "These are the newest 2 checkpoints" in outlast(*words).out


@pytest.mark.proves("CLI-12")
def test_what_a_checkpoint_holds_is_shown_only_to_who_asks_for_it(
    outlast: Call, recorded: Outlast
) -> None:
    for words in (("list", "t1"), ("show", "t1", "1"), ("show", "t1", "5")):
        for extra in ((), ("--json",)):
            said = outlast("checkpoint", *words, *extra)
            assert said.code == Exit.FINE
            assert SECRET not in said.out
            assert '"page"' not in said.out
    shown = outlast("checkpoint", "show", "t1", "5", "--data", "--json").data
    assert (shown["data"], shown["metadata"]) == ({"page": 3}, {"by": "w2"})
    assert (shown["task_id"], shown["group"], shown["attempt"]) == ("t1", "nightly", 2)
    assert SECRET in outlast("checkpoint", "show", "t1", "1", "--data").out


@pytest.mark.proves("CLI-12")
def test_task_show_draws_the_checkpoints_between_the_moves(
    outlast: Call, recorded: Outlast
) -> None:
    lines = outlast("task", "show", "t1").out.splitlines()
    found = (re.search(r"[▶·] (.*)", line) for line in lines)
    drawn = [match[1] for match in found if match]
    assert drawn == [
        "running, attempt 1, by w1",
        "checkpoint 1, iteration_end",
        "checkpoint 2, iteration_end",
        "checkpoint 3, iteration_end",
        "checkpoint 4, error_boundary",
        "running, attempt 2, by w2",
        "checkpoint 5, iteration_end",
    ]


def test_what_is_not_there_is_said_in_one_sentence(outlast: Call, recorded: Outlast) -> None:
    said = outlast("checkpoint", "show", "t1", "6")
    assert (said.code, said.out, said.err.count("\n")) == (Exit.NO, "", 1)
    assert "task t1 has no checkpoint 6; outlast checkpoint list t1 shows" in said.err
    assert outlast("checkpoint", "list", "nobody").code == Exit.NO_TASK
    assert outlast("checkpoint", "show", "nobody", "1").code == Exit.NO_TASK
    for bad in ("0", "-1", "last"):
        assert outlast("checkpoint", "show", "t1", "--", bad).code == Exit.USAGE


def test_looking_at_checkpoints_makes_no_store(bare: Call, tmp_path: Path) -> None:
    said = bare("checkpoint", "list", "t1", "--store", "missing.db")
    assert said.code == Exit.NO_STORE
    assert list(tmp_path.iterdir()) == []


def test_a_task_without_checkpoints_is_said_to_have_none(outlast: Call, recorded: Outlast) -> None:
    recorded.enqueue("ingest", id="t2")
    assert outlast("checkpoint", "list", "t2").out == "Task t2 has no checkpoints.\n"
    typed = outlast("checkpoint", "list", "t1", "--type", "approval_point")
    assert typed.out == "Task t1 has no checkpoint of type approval_point.\n"
