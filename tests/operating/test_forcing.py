"""What people decide against the usual course: by name, at once, and on record."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast import InvalidInput, InvalidTransition, LeaseLost, Outlast, TaskNotFound
from outlast.store.sqlite.operating import Operating as SqliteOperating
from outlast.testing import ManualClock
from tests.operating.stage import holds
from tests.recovery.stage import rows
from tests.support.children import Child
from tests.support.foreign import assert_sound

Make = Callable[..., Outlast]


def last(app: Outlast) -> tuple[str, str, str, str | None]:
    """The newest entry of the audit."""
    (one,) = app.audit(limit=1, newest=True)
    return one.actor, one.source, one.action, one.subject


@pytest.mark.proves("CLI-04")
@pytest.mark.parametrize(
    ("action", "status", "reason", "attempt"),
    [
        ("retry", "pending", "retry", 1),
        ("pending", "pending", "released", 0),
        ("fail", "failed", "failed_by_operator", 1),
    ],
)
def test_a_living_holder_loses_a_forced_task_and_the_record_shows_who_and_why(
    app: Outlast, action: str, status: str, reason: str, attempt: int
) -> None:
    app.enqueue("work", id="t1")
    (lease,) = app.claim("w")
    done = app.force("t1", action, by="ada", reason="it hangs")
    assert (done.status, done.is_changed) == (status, True)
    with pytest.raises(LeaseLost):
        lease.complete()
    with pytest.raises(LeaseLost):
        lease.renew()
    task = app.get("t1")
    assert (task.status, task.attempt) == (status, attempt)
    move = app.history("t1")[-1]
    assert (move.actor, move.reason) == ("operator/ada", reason)
    assert "it hangs" in (move.error or "")
    assert last(app) == ("operator/ada", "library", f"task.{action}", "t1")
    (entry,) = app.audit()
    assert entry.data == {"from": "running", "to": status, "reason": "it hangs"}
    if status == "pending":
        (again,) = app.claim("w")
        assert again.token > lease.token
        assert again.complete() is True


@pytest.mark.proves("CLI-04")
def test_a_forced_retry_is_granted_when_no_retries_are_left(app: Outlast) -> None:
    app.enqueue("work", id="t1", max_retries=0)
    app.claim("w")
    app.force("t1", "retry", by="ada")
    task = app.get("t1")
    assert (task.status, task.retry_count, task.attempt) == ("pending", 0, 0)
    assert len(app.claim("w")) == 1


@pytest.mark.parametrize("action", ["retry", "pending"])
def test_a_task_that_waits_is_made_eligible(app: Outlast, action: str) -> None:
    app.enqueue("work", id="t1", delay="1h")
    assert app.claim("w") == []
    assert app.force("t1", action, by="ada").is_changed
    assert app.force("t1", action, by="ada").is_changed is False
    assert len(app.claim("w")) == 1
    assert len(app.audit()) == 1, "what changed nothing is no act"


def test_a_final_task_runs_anew_as_its_clone_and_by_nothing_but_a_retry(app: Outlast) -> None:
    app.enqueue("work", {"n": 1}, id="t1")
    app.claim("w")[0].fail("no", retry=False)
    for action in ("fail", "pending"):
        with pytest.raises(InvalidTransition, match="failed"):
            app.force("t1", action, by="ada")
    assert app.audit() == []
    done = app.force("t1", "retry", by="ada")
    assert done.new_id is not None
    assert (app.get(done.new_id).retry_of, app.get(done.new_id).payload) == ("t1", {"n": 1})
    assert app.get("t1").status == "failed"
    assert app.audit()[0].data["new_id"] == done.new_id


@pytest.mark.parametrize("action", ["", "explode", "cancel", None])
def test_only_three_actions_can_be_forced(app: Outlast, action: str) -> None:
    with pytest.raises(InvalidInput, match="retry, fail or pending"):
        app.force("t1", action, by="ada")


@pytest.mark.parametrize("name", ["", "a\nb", "\x1b[31m", "x" * 600, None, 5])
def test_a_name_that_could_act_on_its_reader_is_refused_before_anything_is_touched(
    app: Outlast, name: str
) -> None:
    app.enqueue("work", id="t1")
    for act in (
        lambda: app.force("t1", "fail", by=name),
        lambda: app.force_many("fail", ["t1"], by=name),
        lambda: app.approve_recovery(by=name),
    ):
        with pytest.raises(InvalidInput):
            act()
    assert app.get("t1").status == "pending"
    assert app.audit() == []


def test_hostile_names_and_reasons_are_kept_as_they_are(app: Outlast) -> None:
    name, reason = "'); DROP TABLE tasks; -- ö", "why\x1b[31m'\"; \x00"
    app.enqueue("work", id="t1")
    app.force("t1", "fail", by=name, reason=reason)
    (entry,) = app.audit()
    assert (entry.actor, entry.data["reason"]) == (f"operator/{name}", reason)


def test_what_is_not_there_is_said_by_name(app: Outlast) -> None:
    with pytest.raises(TaskNotFound):
        app.force("nope", "fail", by="ada")
    done = app.force_many("fail", ["nope"], by="ada")
    assert [(one.is_changed, one.refused is not None) for one in done] == [(False, True)]
    assert app.audit() == []
    with pytest.raises(InvalidInput, match="ids of tasks, or a status"):
        app.force_many("fail", by="ada")
    with pytest.raises(InvalidInput, match="not a status"):
        app.force_many("fail", status="stuck", by="ada")


@pytest.mark.proves("CLI-04")
def test_all_that_fit_are_forced_batch_by_batch_each_with_its_entry(app: Outlast) -> None:
    app.enqueue_many("work", range(1200), queue="q")
    app.enqueue("other", id="spared", queue="q")
    batches: list[int] = []
    done = app.force_many(
        "fail", status="pending", queue="q", kind="work", by="ada",
        on_batch=lambda batch: batches.append(len(batch)),
    )  # fmt: skip
    assert (len(done), batches) == (1200, [500, 500, 200])
    assert app.counts() == app.counts() | {"failed": 1200, "pending": 1}
    entries = app.audit()
    assert [one.data["changed"] for one in entries] == [500, 500, 200]
    assert {one.subject for one in entries} == {"pending tasks of kind work in queue q"}
    assert max(len(one.data["task_ids"]) for one in entries) == 100
    assert len(app.audit(limit=2000, items=True)) == 1200


def test_a_bulk_retry_made_twice_doubles_nothing(app: Outlast) -> None:
    app.enqueue_many("work", range(3))
    app.force_many("fail", status="pending", by="ada")
    assert len(app.force_many("retry", status="failed", by="ada")) == 3
    assert app.force_many("retry", status="failed", by="ada") == []
    assert app.counts()["pending"] == 3


def _forces(path: str, probe: str, nth: int) -> None:
    import os
    import signal

    from outlast import Outlast
    from outlast.host import probe_points

    app = Outlast(path).open()
    left = [nth]

    def die(name: str) -> None:
        if name == probe:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    probe_points.arm(die)
    app.force_many("fail", status="pending", by="ada")


@pytest.mark.proves("CLI-04")
@pytest.mark.parametrize("probe", ["begun", "logged", "updated", "written", "committed"])
def test_killed_in_the_middle_of_a_bulk_act_each_batch_is_whole_with_its_entry(
    app: Outlast, database: Path, probe: str
) -> None:
    """The second batch is where it dies: the first stands, the third never was."""
    app.enqueue_many("work", range(1100))
    app.close()
    with Child(_forces, database, f"settle.{probe}", 2) as child:
        assert child.wait() == -signal.SIGKILL
    failed = 1000 if probe == "committed" else 500
    assert rows(database, "SELECT count(*) FROM tasks WHERE status = 'failed'") == [(failed,)]
    entries = rows(database, "SELECT actor, json_extract(data, '$.changed') FROM audit")
    assert entries == [("operator/ada", 500)] * (failed // 500)
    moved = "SELECT count(*) FROM transitions WHERE actor = 'operator/ada'"
    assert rows(database, moved) == [(failed,)]
    assert_sound(database)
    assert len(app.force_many("fail", status="pending", by="ada")) == 1100 - failed
    assert app.counts()["failed"] == 1100


def test_every_verb_of_an_operator_leaves_its_name(app: Outlast) -> None:
    app.enqueue_many("work", range(4), id=["a", "b", "c", "d"])
    app.fail("a", "no longer wanted", by="ada")
    app.retry("a", by="ada")
    assert app.cancel("b", by="ada") is True
    assert app.cancel("b", by="ada") is False
    assert app.park("c", by="ada") is True
    assert app.unpark("c", by="ada") is True
    assert app.unpark("c", by="ada") is False
    assert app.pause("q", by="ada") is True
    assert app.pause("q", by="ada") is False
    assert app.unpause("q", by="ada") is True
    found = [(one.action, one.subject) for one in app.audit()]
    assert found == [
        ("task.fail", "a"), ("task.retry", "a"), ("task.cancel", "b"), ("task.park", "c"),
        ("task.unpark", "c"), ("queue.pause", "q"), ("queue.unpause", "q"),
    ]  # fmt: skip
    assert {one.actor for one in app.audit()} == {"operator/ada"}
    with pytest.raises(InvalidTransition):
        app.cancel("a", by="ada")
    with pytest.raises(InvalidTransition):
        app.retry("d", by="ada")
    with pytest.raises(InvalidTransition):
        app.park("a", by="ada")
    assert len(app.audit()) == len(found)


def test_who_gives_no_name_leaves_no_entry(app: Outlast) -> None:
    app.enqueue("work", id="a")
    app.park("a")
    app.unpark("a")
    app.cancel("a")
    app.pause("q")
    assert app.audit() == []


@pytest.mark.proves("CLI-14")
def test_an_approved_recovery_is_applied(make_app: Make, clock: ManualClock) -> None:
    app = make_app(recovery_mode="manual")
    app.enqueue_many("work", range(3), id=["a", "b", "c"])
    app.enqueue("work", id="parked")
    app.park("parked")
    app.claim("w", limit=3, lease="10s")
    clock.advance("1m")
    app.heal()
    assert app.claim("w") == []
    assert app.recovery_status().held_tasks == 3
    assert app.approve_recovery("a", by="ada") == ["a"]
    assert [one.task_id for one in app.claim("w")] == ["a"]
    with pytest.raises(InvalidTransition, match="parked is not held by recovery"):
        app.approve_recovery("parked", by="ada")
    assert app.approve_recovery(by="ada") == ["b", "c"]
    assert app.approve_recovery(by="ada") == []
    assert app.recovery_status().held_tasks == 0
    assert sorted(one.task_id for one in app.claim("w", limit=9)) == ["b", "c"]
    acts = [(one.actor, one.action, one.subject) for one in app.audit() if one.source == "library"]
    assert acts == [
        ("operator/ada", "task.approve", "a"),
        ("operator/ada", "task.approve", "held recoveries"),
    ]
    assert os.path.exists(app.path)


@pytest.mark.proves("CLI-14")
@pytest.mark.parametrize("who", ["a person", "its handler"])
def test_what_somebody_else_holds_is_not_recoverys_to_approve_though_it_was_recovered_before(
    make_app: Make, clock: ManualClock, who: str
) -> None:
    app = make_app(recovery_mode="manual")
    app.enqueue("work", id="a")
    app.claim("w", lease="10s")
    clock.advance("1m")
    app.heal()
    assert app.recovery_status().held_tasks == 1
    app.approve_recovery(by="ada")
    if who == "a person":
        app.park("a", by="bob")
    else:
        app.claim("w")[0].park("hold")
    assert app.recovery_status().held_tasks == 0
    assert app.approve_recovery(by="ada") == []
    with pytest.raises(InvalidTransition, match="not held by recovery"):
        app.approve_recovery("a", by="ada")
    assert app.get("a").parked == "hold"


def test_a_task_that_is_named_twice_is_acted_on_once(app: Outlast) -> None:
    app.enqueue_many("work", range(3), id=["held", "waits", "final"])
    app.claim("w")
    app.force("final", "fail", by="ada")
    for task_id, action in (("held", "pending"), ("waits", "fail"), ("final", "retry")):
        (done,) = app.force_many(action, [task_id, task_id], by="ada")
        assert (done.task_id, done.is_changed) == (task_id, True)
    assert len(app.tasks()) == 4, "one clone"


def test_a_task_that_ends_while_it_is_forced_is_said_to_have_ended(
    app: Outlast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a retry needs a clone is seen before its transaction, and may change until then."""
    app.enqueue("work", id="t1")
    (lease,) = app.claim("w")
    operate = SqliteOperating.operate

    def ends_meanwhile(*args: object, **kwargs: object) -> object:
        lease.fail("no", retry=False)
        return operate(*args, **kwargs)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(SqliteOperating, "operate", ends_meanwhile)
        with pytest.raises(InvalidTransition, match="failed meanwhile; ask again"):
            app.force("t1", "retry", by="ada")
    assert app.force("t1", "retry", by="ada").new_id is not None


def test_what_is_put_back_with_a_worker_that_was_declared_dead_is_on_record_as_an_operators_act(
    app: Outlast, database: Path
) -> None:
    app.enqueue("work", id="t1")
    app.close()
    with Child(holds, database, "victim") as child:
        child.hear()
        (victim,) = (one for one in app.workers() if one.name == "victim")
        app.mark_dead(victim.incarnation, by="ada", force=True)
    acts = [(one.actor, one.source, one.action) for one in app.audit()]
    assert acts == [
        ("operator/ada", "library", "heal"), ("operator/ada", "library", "worker.mark_dead"),
    ]  # fmt: skip
    assert {one.source for one in app.audit(items=True)} == {"operator"}
