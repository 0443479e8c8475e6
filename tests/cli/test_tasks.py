"""Looking at tasks and changing them from the command line."""

import json
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from outlast import Outlast
from outlast.cli.exits import Exit
from outlast.testing import ManualClock
from tests.cli.conftest import Call
from tests.cli.shell import Terminal


def test_a_task_enqueued_from_the_shell_is_the_task_a_program_claims(
    outlast: Call, app: Outlast
) -> None:
    said = outlast("enqueue", "greet", '{"name": "Ada", "tags": [1, null]}', "--priority", "5")
    (lease,) = app.claim("w1")
    assert said.out == f"{lease.task_id}\n"
    assert lease.payload == {"name": "Ada", "tags": [1, None]}
    assert app.get(lease.task_id).priority == 5


def test_every_option_of_enqueue_reaches_the_task(
    outlast: Call, app: Outlast, clock: ManualClock
) -> None:
    words = "--queue q --priority -2 --delay 10m --id t1 --group g --key k --max-retries 9"
    assert outlast("enqueue", "greet", *words.split()).out == "t1\n"
    task = app.get("t1")
    assert (task.queue, task.priority, task.group, task.max_retries) == ("q", -2, "g", 9)
    assert task.not_before is not None
    assert task.not_before.timestamp() * 1000 == clock.now().utc_ms + 600_000
    assert app.keys("t1")[0].key == "k"


@pytest.mark.parametrize(
    ("words", "payload"),
    [
        ((), None),
        (("--arg", "name=Ada"), {"name": "Ada"}),
        (("--arg", "n=3", "--arg", "on=true", "--arg", "x=null"), {"n": 3, "on": True, "x": None}),
        (("--arg", 'code="3"', "--arg", "url=a=b"), {"code": "3", "url": "a=b"}),
        (("--arg", "empty="), {"empty": ""}),
        (("--arg", "zip=01234", "--arg", "x=NaN"), {"zip": "01234", "x": "NaN"}),
        (("--arg", 'deep={"a": [1]}'), {"deep": {"a": [1]}}),
        (("[1, 2]",), [1, 2]),
        (('"text"',), "text"),
    ],
)  # fmt: skip
def test_payloads_are_json_and_arguments_are_json_or_text(
    outlast: Call, app: Outlast, words: tuple[str, ...], payload: object
) -> None:
    outlast("enqueue", "greet", "--id", "t1", *words)
    assert app.get("t1").payload == payload


def test_a_payload_can_come_from_stdin(outlast: Call, app: Outlast) -> None:
    outlast("enqueue", "greet", "-", "--id", "t1", input='{"text": "ümläut"}')
    assert app.get("t1").payload == {"text": "ümläut"}


@pytest.mark.parametrize(
    "words",
    [
        ("{broken",),
        ("[NaN]",),
        ("{}", "--arg", "a=1"),
        ("--arg", "nothing"),
        ("--arg", "=1"),
        ("--arg", "a=1", "--arg", "a=2"),
        ("--delay", "soon"),
        ("--delay", "-1"),
        ("--queue", ""),
        ("--max-retries", "-1"),
    ],
)
def test_what_cannot_be_enqueued_is_refused_before_a_store_is_made(
    outlast: Call, database: Path, words: tuple[str, ...]
) -> None:
    said = outlast("enqueue", "greet", *words)
    assert (said.code, said.out, said.err.count("\n")) == (Exit.USAGE, "", 1)
    assert not database.exists()


def test_an_idempotency_key_gives_the_same_task_and_refuses_another_request(
    outlast: Call, app: Outlast
) -> None:
    first = outlast("enqueue", "charge", "--arg", "n=1", "--key", "k").out
    assert outlast("enqueue", "charge", "--arg", "n=1", "--key", "k").out == first
    said = outlast("enqueue", "charge", "--arg", "n=2", "--key", "k")
    assert (said.code, said.out) == (Exit.NO, "")
    assert app.counts()["pending"] == 1


def test_a_list_is_narrowed_by_each_option(outlast: Call, app: Outlast) -> None:
    app.enqueue("a", id="t1", queue="q1", group="g1")
    app.enqueue("b", id="t2", queue="q1")
    app.enqueue("a", id="t3", queue="q2", group="g1")
    app.cancel("t3")

    def ids(*words: str) -> list[str]:
        return [task["id"] for task in outlast("task", "list", "--json", *words).data]

    assert ids() == ["t3", "t2", "t1"]
    assert ids("--queue", "q1") == ["t2", "t1"]
    assert ids("--group", "g1") == ["t3", "t1"]
    assert ids("--kind", "a") == ["t3", "t1"]
    assert ids("--status", "pending", "--kind", "a") == ["t1"]
    assert ids("--limit", "1") == ["t3"]
    assert ids("--limit", "1", "--kind", "b") == ["t2"]


def test_a_list_shows_no_payload_and_show_only_when_asked(outlast: Call, app: Outlast) -> None:
    app.enqueue("greet", {"password": "hunter2"}, id="t1")
    for words in (("task", "list"), ("task", "show", "t1"), ("task", "why", "t1")):
        for extra in ((), ("--json",)):
            assert "hunter2" not in outlast(*words, *extra).out
    assert "hunter2" in outlast("task", "show", "t1", "--payload").out
    assert outlast("task", "show", "t1", "--payload", "--json").data["payload"] == {
        "password": "hunter2"
    }


def test_a_damaged_payload_is_named_and_the_rest_is_shown(
    outlast: Call, app: Outlast, database: Path
) -> None:
    app.enqueue("greet", {"name": "Ada"}, id="t1")
    app.close()
    connection = apsw.Connection(str(database))
    connection.execute("DROP TRIGGER IF EXISTS tasks_guard")
    connection.execute("UPDATE tasks SET payload = ?", (json.dumps({"name": "Eve"}),))
    connection.close()
    said = outlast("task", "show", "t1", "--payload")
    assert (said.code, "payload: damaged on disk" in said.out) == (Exit.FINE, True)
    assert "Eve" not in said.out
    assert outlast("task", "show", "t1", "--payload", "--json").data["damaged"] == ["payload"]


def _failed(app: Outlast, *task_ids: str, queue: str = "default") -> None:
    for task_id in task_ids:
        app.enqueue("greet", id=task_id, max_retries=0, queue=queue)
        (lease,) = app.claim("w1", queue=queue)
        lease.fail("broken")


def test_several_tasks_are_changed_each_by_itself_and_the_worst_decides_the_code(
    outlast: Call, app: Outlast
) -> None:
    _failed(app, "t3")
    app.enqueue("greet", id="t1")
    app.enqueue("greet", id="t2")
    app.cancel("t2")
    said = outlast("task", "cancel", "t1", "t2", "--json")
    assert said.code == Exit.FINE
    assert said.data["cancelled"] == [
        {"id": "t1", "changed": True},
        {"id": "t2", "changed": False},
    ]
    said = outlast("task", "cancel", "t3", "nobody", "--json")
    assert said.code == Exit.NO_TASK
    assert [one["id"] for one in said.data["skipped"]] == ["t3", "nobody"]
    assert app.counts() == {
        "pending": 0, "running": 0, "completed": 0, "failed": 1, "cancelled": 2,
    }  # fmt: skip


def test_a_retry_names_the_clone_and_an_unfinished_task_is_left_out(
    outlast: Call, app: Outlast
) -> None:
    _failed(app, "t1")
    app.enqueue("greet", id="t2")
    said = outlast("task", "retry", "t1", "t2", "--json")
    assert said.code == Exit.NO
    ((pair,), (left,)) = said.data["retried"], said.data["skipped"]
    assert app.get(pair["new_id"]).retry_of == pair["id"] == "t1"
    assert left["id"] == "t2"


def test_bulk_says_scope_and_count_and_changes_nothing_without_a_yes(
    outlast: Call, app: Outlast
) -> None:
    _failed(app, "t1", "t2")
    _failed(app, "t3", queue="slow")
    said = outlast("task", "retry", "--status", "failed", "--queue", "default")
    assert (said.code, said.out) == (Exit.USAGE, "")
    scope, refusal = said.err.splitlines()
    assert scope == "2 failed tasks in queue default will run again."
    assert "--yes" in refusal
    assert app.counts()["pending"] == 0


def test_bulk_with_a_yes_changes_just_what_fits(outlast: Call, app: Outlast) -> None:
    _failed(app, "t1", "t2")
    _failed(app, "t3", queue="slow")
    app.enqueue("other", id="t4")
    said = outlast("task", "retry", "--status", "failed", "--queue", "default", "-y", "--json")
    assert [one["id"] for one in said.data["retried"]] == ["t1", "t2"]
    said = outlast("task", "cancel", "--status", "pending", "--kind", "greet", "--yes")
    assert said.err == "2 pending tasks of kind greet will be cancelled.\n"
    assert app.get("t4").status == "pending"
    assert app.counts()["cancelled"] == 2


def test_bulk_retry_may_be_repeated_without_doubling_the_work(outlast: Call, app: Outlast) -> None:
    _failed(app, "t1", "t2")
    assert outlast("task", "retry", "t1").code == Exit.FINE
    words = ("task", "retry", "--status", "failed", "--yes", "--json")
    assert [one["id"] for one in outlast(*words).data["retried"]] == ["t2"]
    assert outlast(*words).data == {"retried": [], "skipped": []}
    assert app.counts()["pending"] == 2


def test_bulk_reaches_more_than_a_page_of_tasks(outlast: Call, app: Outlast) -> None:
    app.enqueue_many("greet", [None] * 300)
    assert len(outlast("task", "list", "--json").data) == 50
    outlast("task", "cancel", "--status", "pending", "--yes")
    assert app.counts()["cancelled"] == 300


@pytest.mark.parametrize(
    "words",
    [
        ("retry",),
        ("cancel",),
        ("retry", "--queue", "default"),
        ("retry", "t1", "--status", "failed"),
        ("retry", "--status", "pending"),
        ("cancel", "--status", "failed"),
    ],
)
def test_an_unclear_scope_is_refused(outlast: Call, app: Outlast, words: tuple[str, ...]) -> None:
    _failed(app, "t1")
    said = outlast("task", *words, "--yes")
    assert (said.code, said.out, said.err.count("\n")) == (Exit.USAGE, "", 1)
    assert app.counts()["failed"] == 1


@pytest.mark.parametrize(("reply", "code", "left"), [("y\n", 0, 0), ("n\n", 1, 2), ("\n", 1, 2)])
def test_on_a_terminal_bulk_asks_first(
    make_app: Callable[..., Outlast], tmp_path: Path, reply: str, code: int, left: int
) -> None:
    app = make_app()
    app.enqueue_many("greet", [None, None])
    with Terminal(
        tmp_path, "task", "cancel", "--status", "pending", "--store", app.path
    ) as terminal:
        assert "2 pending tasks will be cancelled." in terminal.until("Go on?")
        assert app.counts()["pending"] == 2
        terminal.write(reply)
        assert terminal.finish() == code
    assert app.counts()["pending"] == left
