"""First claims, claims anew and orphans that failed for good are told apart, with their counts."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast import Outlast, Settings
from outlast.store.sqlite.transaction import SqliteTransaction
from outlast.testing import ManualClock
from tests.logs.conftest import Kept
from tests.support.children import Child

WORDS = ("CLAIM", "RE-CLAIM", "ORPHAN_FAILED")


def _words(log: Kept, task_id: str) -> list[str]:
    """The words about a task, in the order in which they were said."""
    said = [one for one in log.records if getattr(one, "task_id", None) == task_id]
    first = [one.getMessage().split()[0] for one in said]
    return [word for word in first if word in WORDS]


@pytest.mark.proves("OBS-12")
def test_a_first_claim_a_claim_anew_and_a_lost_orphan_have_three_words(
    make_app: Callable[..., Outlast], clock: ManualClock, log: Kept
) -> None:
    """Lost once: claimed anew. Lost again with a budget of one: failed for good."""
    app = make_app(max_recovery_attempts=1)
    app.enqueue("index", id="t1")
    for _ in range(2):
        app.claim("w1", lease="1m")
        clock.advance("2m")
    app.heal()
    assert app.get("t1").status == "failed"
    assert _words(log, "t1") == ["CLAIM", "RE-CLAIM", "ORPHAN_FAILED"]
    (claim,), (again,), (failed,) = (log.starting(word) for word in WORDS)
    assert (claim.levelname, again.levelname, failed.levelname) == ("DEBUG", "INFO", "WARNING")
    assert (vars(claim)["attempt"], vars(again)["attempt"]) == (1, 2)
    about = vars(again)
    assert (about["retry_count"], about["recovery_count"]) == (0, 1)
    assert about["reason"] == "lease_expired_retry"
    assert "retries used: 0 of 3, crashes: 1" in again.getMessage()
    about = vars(failed)
    assert (about["recovery_count"], about["reason"]) == (1, "max_retries_exceeded")
    assert "0 of 3 retries and 1 of 1 crashes in a row are used" in failed.getMessage()


@pytest.mark.proves("OBS-12")
def test_a_claim_after_a_failure_says_how_often_it_was_tried(
    app: Outlast, clock: ManualClock, log: Kept
) -> None:
    app.enqueue("index", id="t1")
    for _ in range(2):
        (lease,) = app.claim("w1")
        lease.fail("broken")
        clock.advance("1h")
    app.claim("w2")
    first, second = log.starting("RE-CLAIM")
    assert [vars(one)["retry_count"] for one in (first, second)] == [1, 2]
    assert {vars(one)["reason"] for one in (first, second)} == {"retry"}
    assert (vars(second)["worker"], vars(second)["kind"]) == ("w2", "index")
    assert vars(second)["token"] > vars(first)["token"]


def test_a_task_that_was_only_given_back_is_claimed_for_the_first_time(
    app: Outlast, log: Kept
) -> None:
    app.enqueue("index", id="t1")
    app.claim("w1")[0].release()
    app.claim("w1")
    assert _words(log, "t1") == ["CLAIM", "CLAIM"]


@pytest.mark.parametrize("action", ["retry", "pending"])
def test_a_task_that_was_lost_is_claimed_anew_whether_or_not_it_was_charged(
    make_app: Callable[..., Outlast], clock: ManualClock, log: Kept, action: str
) -> None:
    app = make_app(recovery_action=action)
    app.enqueue("index", id="t1")
    app.claim("w1", lease="1m")
    clock.advance("2m")
    app.claim("w2")
    assert _words(log, "t1") == ["CLAIM", "RE-CLAIM"]


def _dies_with(path: str, task_id: str) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path)
    app.enqueue("index", id=task_id)
    app.claim("doomed")
    say()
    hear()


@pytest.mark.proves("OBS-12")
def test_an_orphan_that_fails_by_policy_is_told_with_the_reason(database: Path, log: Kept) -> None:
    with Child(_dies_with, database, "t1") as child:
        child.hear()
        child.kill()
    with Outlast(database, settings=Settings(recovery_action="fail")):
        pass
    (failed,) = log.starting("ORPHAN_FAILED")
    about = vars(failed)
    assert (about["task_id"], about["worker"]) == ("t1", "doomed")
    assert (about["status"], about["reason"]) == ("failed", "crash_policy_fail")
    assert isinstance(about["run_id"], int)


def test_a_claim_of_hundreds_asks_nothing_more_while_nobody_listens(
    app: Outlast, clock: ManualClock, log: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both what is asked of the store and what is said: neither without a listener."""
    asked: list[str] = []
    rows = SqliteTransaction.rows

    def counted(self: SqliteTransaction, name: str, *values: object) -> object:
        asked.append(name)
        return rows(self, name, *values)  # type: ignore[arg-type]

    app.enqueue_many("index", [None] * 300)
    for lease in app.claim("w1", limit=300):
        lease.fail("broken")
    clock.advance("1h")
    monkeypatch.setattr(SqliteTransaction, "rows", counted)
    logging.getLogger("outlast").setLevel(logging.WARNING)
    log.records.clear()
    assert len(app.claim("w1", limit=150)) == 150
    assert "what_came_before" not in asked
    assert not log.records
    logging.getLogger("outlast").setLevel(logging.INFO)
    assert len(app.claim("w1", limit=150)) == 150
    assert asked.count("what_came_before") == 1
    assert len(log.starting("RE-CLAIM")) == 150
    assert not log.starting("CLAIM")


def _claims_with_an_armed_probe(path: str, log_path: str) -> None:
    import logging
    import os
    import signal

    from outlast import Outlast, probes

    logging.basicConfig(filename=log_path, level=logging.DEBUG)
    app = Outlast(path)
    app.open()

    def die(name: str) -> None:
        if name == "claim.written":
            os.kill(os.getpid(), signal.SIGKILL)

    probes.arm(die)
    app.claim("w1")


def test_nothing_is_told_of_a_claim_that_did_not_happen(database: Path, tmp_path: Path) -> None:
    with Outlast(database) as app:
        app.enqueue("index", id="t1")
    with Child(_claims_with_an_armed_probe, database, tmp_path / "log") as child:
        assert child.wait() == -9
    assert "CLAIM" not in (tmp_path / "log").read_text()
    assert Outlast(database).get("t1").status == "pending"
