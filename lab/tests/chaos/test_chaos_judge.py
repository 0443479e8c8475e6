"""The judgement on a round: what the invariants do not look at, each of it seen to fail."""

from collections import defaultdict
from pathlib import Path

import pytest

from outlast_lab.experiments.chaos.judge import Execution, objections, read_executions
from outlast_lab.experiments.chaos.supervisor import Account, Span
from outlast_lab.judge.foreign_reader import Move, Stored, StoredTask
from outlast_lab.judge.row_rules import Violation
from outlast_lab.record.history import Call, History, LineFile

FIRST = Execution("a", "t", 1, 1, 10.0, 20.0)
SECOND = Execution("b", "t", 2, 2, 21.0, 22.0)


def task(status: str = "completed", result: str | None = '"b/2"') -> StoredTask:
    return StoredTask(
        "t", 1, status, "work", None, 2, 0, 1, 1, 3, 3, 2, None, None, 0, None, 0, 0, 0, None,
        None, result,
    )  # fmt: skip


def judged(
    executions: list[Execution],
    reason: str = "crash_retry",
    one: StoredTask | None = None,
    history: History | None = None,
    account: Account | None = None,
) -> list[Violation]:
    moves = [
        Move("pending", "running", "worker", "claimed", 1, 1, "a"),
        Move("running", "pending", "system/recovery", reason, 1, 1, "a"),
        Move("pending", "running", "worker", "claimed", 2, 2, "b"),
        Move("running", "completed", "worker", "completed", 2, 2, "b"),
    ]
    stored = Stored(tasks={"t": one or task()}, moves=defaultdict(list, {"t": moves}))
    return list(objections(history or History(), stored, executions, account or Account()))


def test_one_handler_after_the_other_is_sound() -> None:
    assert judged([FIRST, SECOND]) == []


def test_two_handlers_of_one_task_at_once_are_seen() -> None:
    (found,) = judged([FIRST, SECOND._replace(begun_at=15.0)])
    assert found.kind == "overlap"


def test_a_handler_that_was_killed_ended_with_its_process() -> None:
    killed = FIRST._replace(ended_at=None)
    assert judged([killed, SECOND], history=History(killed_at={"a": 20.0})) == []
    (found,) = judged([killed, SECOND], history=History(killed_at={"a": 21.5}))
    assert found.kind == "overlap"


def test_a_lease_that_ran_out_while_somebody_stood_still_explains_two_handlers() -> None:
    together = [FIRST, SECOND._replace(begun_at=15.0)]
    for stopped in (
        Account(stops=[Span("a", 11.0, 14.0)]),
        Account(stops=[Span("c", 11.0, 14.0, keeps_others_out=True)]),
        Account(stops=[Span("a", 11.0, 11.3), Span("a", 12.0, 12.3)]),
        Account(without_store_process=[Span("a", 11.0, 12.0)]),
    ):
        assert judged(together, "lease_expired_retry", account=stopped) == []
    late = Account(late=[Span("supervisor", 11.0, 14.0)])
    assert judged(together, "lease_expired_retry", account=late) == []


@pytest.mark.parametrize(
    ("reason", "account"),
    [
        ("crash_retry", Account(stops=[Span("a", 11.0, 14.0)])),
        ("released", Account(stops=[Span("a", 11.0, 14.0)])),
        ("lease_expired_retry", Account()),
        ("lease_expired_retry", Account(stops=[Span("a", 30.0, 34.0)])),
        ("lease_expired_retry", Account(stops=[Span("a", 1.0, 4.0)])),
        ("lease_expired_retry", Account(stops=[Span("b", 11.0, 14.0)])),
        ("lease_expired_retry", Account(stops=[Span("a", 11.0, 14.0, is_its_work=False)])),
        ("lease_expired_retry", Account(stops=[Span("a", 11.0, 11.1)])),
        ("lease_expired_retry", Account(without_store_process=[Span("b", 11.0, 12.0)])),
    ],
)
def test_nothing_else_explains_it(reason: str, account: Account) -> None:
    together = [FIRST, SECOND._replace(begun_at=15.0)]
    (found,) = judged(together, reason, account=account)
    assert found.kind == "overlap"


def test_a_task_without_an_end_is_stuck() -> None:
    (found,) = judged([FIRST, SECOND], one=task("pending", None))
    assert found.kind == "stuck"


def test_a_result_of_an_older_token_is_a_zombies() -> None:
    (found,) = judged([FIRST, SECOND], one=task(result='"a/1"'))
    assert found.kind == "zombie"


def test_a_result_of_a_handler_that_never_ran_is_a_phantom() -> None:
    other = Execution("b", "another", 1, 7, 1.0, 2.0)
    (found,) = judged([FIRST, other])
    assert found.kind == "phantom"


def test_a_completed_task_without_a_result_has_lost_it() -> None:
    (found,) = judged([FIRST, SECOND], one=task(result=None))
    assert found.kind == "lost"


@pytest.mark.parametrize("result", ['"b/"', '"b/2x"', '"b/\u00b2"', "x", '""', "{}"])
def test_a_result_that_nobody_gave_is_damaged(result: str) -> None:
    (found,) = judged([FIRST, SECOND], one=task(result=result))
    assert found.kind == "damaged"


WORKS = [Call("a", "work", {}, 1.0, 1000), Call("b", "work", {}, 1.0, 1000)]


def test_a_real_worker_that_lives_and_is_declared_dead_is_seen() -> None:
    (found,) = judged([FIRST, SECOND], history=History(WORKS))
    assert found.kind == "overlap"
    assert "declared dead" in found.detail


def test_a_real_worker_that_is_declared_dead_before_it_was_killed_or_left_is_seen() -> None:
    for ended in ({"killed_at": {"a": 21.5}}, {"left_at": {"a": 21.5}}):
        (found,) = judged([FIRST, SECOND], history=History(WORKS, **ended))
        assert "declared dead" in found.detail
    claim = Call("c", "claim", {}, 20.1, 20100, 20.5, 20500, "done", [["t", 2, 2, 3000]])
    (found,) = judged([FIRST], history=History([*WORKS, claim], {"a": 21.0}))
    assert "declared dead" in found.detail


def test_a_real_worker_that_was_killed_or_left_may_be_declared_dead() -> None:
    for ended in ({"killed_at": {"a": 20.5}}, {"left_at": {"a": 20.5}}):
        assert judged([FIRST, SECOND], history=History(WORKS, **ended)) == []
    assert judged([FIRST, SECOND], "lease_expired_retry", history=History(WORKS)) == []


def test_a_process_that_ended_badly_is_a_surprise() -> None:
    (found,) = judged([FIRST, SECOND], account=Account(troubles=["p1 ended with 1"]))
    assert (found.kind, found.detail) == ("surprise", "p1 ended with 1")


def test_executions_are_read_from_the_records_of_all_processes(tmp_path: Path) -> None:
    one, other = LineFile(tmp_path / "a.1.hands"), LineFile(tmp_path / "b.2.hands")
    one.write(["begun", "a", "t", 1, 1, 10.0])
    one.write(["ended", "a", "t", 1, 1, 20.0])
    other.write(["begun", "b", "t", 2, 2, 21.0])
    assert read_executions(tmp_path) == [FIRST, SECOND._replace(ended_at=None)]
