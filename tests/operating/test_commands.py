"""The same by command, under the name of whoever is logged in unless another is given."""

import json
from pathlib import Path

import pytest

from outlast import Outlast
from tests.cli.shell import piped
from tests.operating.stage import holds
from tests.recovery.stage import crash, rows
from tests.support.children import Child


def run(database: Path, *words: str, **more: str) -> tuple[int, str, str]:
    done = piped(database.parent, *words, "--store", database, **more)
    return done.returncode, done.stdout, done.stderr


def audit(database: Path) -> list[tuple[str, ...]]:
    return rows(database, "SELECT actor, source, action, subject FROM audit ORDER BY id")


@pytest.mark.proves("CLI-04")
def test_a_stuck_task_is_forced_by_name_and_audited(app: Outlast, database: Path) -> None:
    app.enqueue("work", id="t1")
    app.close()
    with Child(holds, database, "w") as child:
        assert child.hear() == ["t1"]
        code, out, _ = run(
            database, "task", "force", "pending", "t1", "--by", "ada", "--reason", "it hangs"
        )
    assert (code, out) == (0, "t1 is pending\n")
    move = app.history("t1")[-1]
    assert (move.actor, move.error) == ("operator/ada", "pending by operator/ada: it hangs")
    assert audit(database) == [("operator/ada", "cli", "task.pending", "t1")]


def test_the_login_name_stands_in_for_by(app: Outlast, database: Path) -> None:
    app.enqueue_many("work", range(3), id=["a", "b", "c"])
    app.close()
    for words in ("task cancel a", "task force fail b", "task retry a", "queue pause q",
                  "queue resume q"):  # fmt: skip
        code, _, error = run(database, *words.split(), LOGNAME="grace")
        assert code == 0, error
    assert {one[0] for one in audit(database)} == {"operator/grace"}
    assert [one[2] for one in audit(database)] == [
        "task.cancel", "task.fail", "task.retry", "queue.pause", "queue.unpause",
    ]  # fmt: skip


def test_a_bulk_force_says_scope_and_count_and_waits_for_a_yes(
    app: Outlast, database: Path
) -> None:
    app.enqueue_many("work", range(3), queue="q")
    app.close()
    words = ("task", "force", "fail", "--status", "pending", "--queue", "q")
    code, out, error = run(database, *words)
    assert (code, out) == (2, "")
    assert "3 pending tasks in queue q will be failed." in error
    assert "nothing was changed" in error
    assert app.counts()["pending"] == 3
    app.close()
    code, out, _ = run(database, *words, "--yes", "--json", "--by", "ada")
    assert code == 0
    assert [one["status"] for one in json.loads(out)["forced"]] == ["failed"] * 3


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("explode", "t1"), "explode"),
        (("fail",), "give the ids of tasks"),
        (("fail", "t1", "--status", "failed"), "not both"),
        (("fail", "t1", "--by", "a\nb"), "control characters"),
        (("fail", "t1", "--by", ""), "non-empty"),
        (("fail", "nobody"), "nobody"),
    ],
)
def test_bad_input_is_one_sentence(
    app: Outlast, database: Path, words: tuple[str, ...], says: str
) -> None:
    app.enqueue("work", id="t1")
    app.close()
    code, out, error = run(database, "task", "force", *words)
    assert code not in (0, 70)
    assert says in error + out
    assert "Traceback" not in error
    assert len((error or out).strip().splitlines()) == 1
    assert app.get("t1").status == "pending"


@pytest.mark.proves("CLI-14")
def test_held_recoveries_are_approved_by_command(app: Outlast, database: Path) -> None:
    app.enqueue_many("work", range(3), id=["a", "b", "c"])
    app.close()
    crash(database)
    run(database, "queue", "recover", OUTLAST_RECOVERY_MODE="manual")
    assert [app.get(one).parked for one in "abc"] == ["hold"] * 3
    app.close()
    assert run(database, "queue", "approve")[0] == 2
    assert run(database, "queue", "approve", "a", "--by", "ada")[:2] == (0, "a may run\n")
    code, _, error = run(database, "queue", "approve", "--all")
    assert code == 2
    assert "2 held tasks will be approved." in error
    code, out, _ = run(database, "queue", "approve", "--all", "--yes", "--by", "ada")
    assert (code, out) == (0, "b may run\nc may run\n")
    assert len(app.claim("w", limit=9)) == 3


def test_one_that_cannot_be_approved_does_not_keep_the_others_from_it(
    app: Outlast, database: Path
) -> None:
    app.enqueue_many("work", range(3), id=["a", "b", "c"])
    app.close()
    crash(database)
    run(database, "queue", "recover", OUTLAST_RECOVERY_MODE="manual")
    app.unpark("b")
    app.close()
    code, out, _ = run(database, "queue", "approve", "a", "b", "nobody", "c", "c", "--by", "ada")
    lines = out.splitlines()
    assert (code, len(lines)) == (4, 4)
    assert (lines[0], lines[3]) == ("a may run", "c may run")
    assert "b was left out: task b is not held by recovery" in lines[1]
    assert "nobody was left out: " in lines[2]
    code, out, _ = run(database, "queue", "approve", "b", "--json", "--by", "ada")
    assert (code, json.loads(out)["approved"]) == (1, [])
    assert [one["id"] for one in json.loads(out)["skipped"]] == ["b"]


def test_only_those_are_approved_that_were_counted(
    app: Outlast, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More may be held by the time that a person has said yes."""
    from outlast.cli.commands import task_force
    from outlast.cli.main import cli

    def one_more_is_held(task_id: str) -> None:
        app.enqueue("work", id=task_id)
        app.close()
        crash(database)
        run(database, "queue", "recover", OUTLAST_RECOVERY_MODE="manual")

    asked: list[str] = []

    def takes_its_time(scope: str, yes: bool) -> None:
        asked.append(scope)
        one_more_is_held("b")

    one_more_is_held("a")
    monkeypatch.setattr(task_force, "confirm", takes_its_time)
    with pytest.raises(SystemExit) as left:
        cli.main(["queue", "approve", "--all", "--by", "ada", "--store", str(database)])
    assert (left.value.code, asked) == (0, ["1 held task will be approved."])
    assert [app.get(one).parked for one in "ab"] == [None, "hold"]


def test_a_task_that_is_named_twice_is_retried_once(app: Outlast, database: Path) -> None:
    app.enqueue("work", id="t1")
    app.cancel("t1")
    app.close()
    code, out, _ = run(database, "task", "retry", "t1", "t1", "--by", "ada")
    assert (code, len(out.splitlines()), len(app.tasks())) == (0, 1, 2)


def test_a_worker_is_declared_dead_by_name(app: Outlast, database: Path) -> None:
    app.enqueue("work", id="t1")
    app.close()
    with Child(holds, database, "victim") as child:
        assert child.hear() == ["t1"]
        code, _, error = run(database, "worker", "mark-dead", "victim", "--by", "ada")
        assert code != 0
        assert "--force" in error
        code, out, _ = run(database, "worker", "mark-dead", "victim", "--by", "ada", "--force")
        assert (code, f"Worker victim (pid {child.pid}) is dead: 1 task put back" in out) == (
            0, True,
        )  # fmt: skip
    move = app.history("t1")[-1]
    assert (move.actor, move.reason) == ("operator/ada", "taken_retry")
    assert move.error == "the lease of worker victim was taken away by operator/ada"
    assert audit(database) == [
        ("operator/ada", "cli", "heal", "victim"),
        ("operator/ada", "cli", "worker.mark_dead", "victim"),
    ]
    (act,) = (one for one in app.audit() if one.action == "worker.mark_dead")
    assert (act.data["pid"], "incarnation" in act.data) == (child.pid, True)
    code, _, error = run(database, "worker", "mark-dead", "nobody", "--by", "ada")
    assert code == 2
    assert "no worker called nobody" in error


def test_a_worker_that_died_by_itself_is_told_to_be_dead_already(
    app: Outlast, database: Path
) -> None:
    """The command's own opening recovers what it left, before the word is heard."""
    app.enqueue("work", id="t1")
    app.close()
    with Child(holds, database, "victim") as child:
        assert child.hear() == ["t1"]
    for said in (
        f"Worker victim (pid {child.pid}) is dead already; recovery put back 1 task, and failed"
        " 0.\n",
        f"Worker victim (pid {child.pid}) is dead already.\n",
    ):
        assert run(database, "worker", "mark-dead", "victim", "--by", "ada")[:2] == (0, said)
    assert app.history("t1")[-1].reason == "crash_retry"


def test_what_is_reclaimed_by_force_is_on_record_as_the_operators(
    app: Outlast, database: Path
) -> None:
    """No lease has run out, and nobody's recovery took it."""
    app.enqueue("work", id="t1")
    app.close()
    with Child(holds, database, "hangs") as child:
        assert child.hear() == ["t1"]
        words = ("queue", "reclaim", "--threshold", "0", "--force", "--by", "ada")
        code, _, error = run(database, *words)
        assert code == 0, error
        move = app.history("t1")[-1]
        assert (move.actor, move.reason) == ("operator/ada", "taken_retry")
        assert move.error == "the lease of worker hangs was taken away by operator/ada"
        (act,) = audit(database)
        assert act[:3] == ("operator/ada", "cli", "queue.reclaim")
