"""What a command refuses: in words of the command line, with the code that fits."""

import json
from pathlib import Path

import pytest

from outlast import Outlast
from outlast.cli.exits import Exit
from tests.cli.conftest import Call
from tests.support.foreign import foreign_rows

PAGE_BYTES = 4096


@pytest.mark.parametrize(
    "words",
    ["task force retry nope", "task force fail nope", "task cancel nope", "task show nope",
     "queue events --task nope"],
)  # fmt: skip
def test_a_task_that_is_not_there_has_one_code(outlast: Call, app: Outlast, words: str) -> None:
    app.open()
    said = outlast(*words.split())
    assert said.code == Exit.NO_TASK
    assert "nope" in said.out + said.err


def test_the_events_of_a_task_that_was_taken_for_good_are_shown(
    outlast: Call, app: Outlast
) -> None:
    app.enqueue("mail", id="gone-1")
    app.take(1)
    said = outlast("queue", "events", "--task", "gone-1")
    assert (said.code, "task.taken" in said.out) == (Exit.FINE, True)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("task force", "Choose from: retry, fail, pending; see 'outlast task force --help'"),
        ("queue recovery-report --run x", "Invalid value for '--run': 'x' is not a whole number"),
        ("health --watch x", "Invalid value for '--watch': 'x' is not a number"),
        ("queue reclaim --threshold x", "--older-than must look like"),
        ("task show abc", "no task abc; of an id that begins so give at least 4 characters"),
    ],
)
def test_a_refusal_speaks_of_what_was_typed(
    outlast: Call, app: Outlast, words: str, sentence: str
) -> None:
    app.enqueue("mail", id="abcdef")
    said = outlast(*words.split())
    assert said.code != 0
    assert sentence in said.err
    assert "\n" not in said.err.strip()


@pytest.mark.parametrize("reason", ["", " ", "x" * 1001])
def test_a_reason_says_something_and_is_bounded(outlast: Call, app: Outlast, reason: str) -> None:
    app.enqueue("mail", id="t1")
    said = outlast("task", "force", "fail", "t1", "--reason", reason)
    assert said.code == Exit.USAGE
    assert "reason must be a text of 1 to 1000 characters" in said.err
    assert app.get("t1").status == "pending"


def test_who_meets_a_damaged_file_is_told_what_to_do(
    outlast: Call, app: Outlast, tmp_path: Path
) -> None:
    app.enqueue("mail", id="t1")
    app.close()
    (root,) = foreign_rows(app.path, "SELECT rootpage FROM sqlite_schema WHERE name = 'tasks'")
    damaged = bytearray(app.path.read_bytes())
    damaged[(root[0] - 1) * PAGE_BYTES : root[0] * PAGE_BYTES] = b"\xff" * PAGE_BYTES
    (tmp_path / "damaged.db").write_bytes(damaged)
    said = outlast("task", "list", "--store", "damaged.db")
    assert said.code == Exit.STORE_UNUSABLE
    assert (
        "the file is damaged; keep a copy of it and of its -wal, and restore a backup" in said.err
    )


@pytest.mark.parametrize("payload", ["[" * 5000, "[" * 5000 + "]" * 5000])
def test_a_payload_that_is_nested_too_deeply_is_refused(
    outlast: Call, app: Outlast, payload: str
) -> None:
    app.open()
    said = outlast("enqueue", "k", payload)
    assert said.code == Exit.USAGE
    assert "\n" not in said.err.strip()
    assert sum(app.counts().values()) == 0


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("--json task show nope", Exit.NO_TASK),
        ("task list --json --status odd", Exit.USAGE),
        ("task no-such-verb --json", Exit.USAGE),
    ],
)
def test_a_machine_is_told_of_an_error_by_a_document(
    outlast: Call, app: Outlast, words: str, code: Exit
) -> None:
    app.open()
    said = outlast(*words.split())
    told = json.loads(said.out)
    assert (said.code, told["code"]) == (code, code)
    assert f"outlast: {told['error']}\n" == said.err
