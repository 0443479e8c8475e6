"""Ways to leave: politely, by an error, by Ctrl-C, or declared dead by others; nothing is stuck."""

import logging
import signal
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from outlast import MigrationRefused, Outlast, QueueStalled
from outlast.domain.codec import payload_sum
from outlast.store.commit.batch import Batch
from outlast.store.sqlite.writer import Writer
from outlast.testing import ManualClock
from tests.store.golden import apply_migrations
from tests.store.hand import Hand
from tests.support.children import Child
from tests.support.foreign import assert_sound, foreign_rows
from tests.support.newer import know_next

pytestmark = pytest.mark.slow

STATES = "SELECT state FROM workers ORDER BY seq"


def _breaks_while_it_works(path: str, way: str) -> None:
    from outlast import Outlast
    from tests.support.childside import say

    app = Outlast(path)
    if way == "with":
        with app:
            say([lease.attempt for lease in app.claim("w")])
            raise OSError("the handler broke")
    say([lease.attempt for lease in app.claim("w")])
    if way == "error":
        raise OSError("the handler broke")


@pytest.mark.parametrize("way", ["with", "error", "exit"])
def test_work_that_ends_its_process_runs_four_times_and_fails(
    database: Path, app: Outlast, way: str
) -> None:
    """By an error through `with`, by an error without it, or by just leaving with the lease out."""
    app.enqueue("work", id="t")
    app.close()
    for attempt in (1, 2, 3, 4):
        with Child(_breaks_while_it_works, database, way) as child:
            assert child.hear_all() == [[attempt]], child.error()
    with Child(_breaks_while_it_works, database, "exit") as fifth:
        assert fifth.hear_all() == [[]], "what failed is not handed out again"
    task = app.get("t")
    assert (task.status, task.attempt, task.recovery_count) == ("failed", 4, 3)
    assert_sound(database)


def _works_until_it_is_interrupted(path: str, way: str) -> None:
    from contextlib import nullcontext

    from outlast import Outlast
    from tests.support.childside import say

    app = Outlast(path)
    leases = []
    with app if way == "with" else nullcontext():
        while True:
            claimed = app.claim("w")
            leases += claimed
            for lease in claimed:
                say(lease.task_id)


@pytest.mark.parametrize("way", ["with", "bare"])
def test_ctrl_c_in_a_claim_loop_gives_back_uncharged_at_once(
    database: Path, app: Outlast, way: str
) -> None:
    app.enqueue("work", id="t")
    with Child(_works_until_it_is_interrupted, database, way) as child:
        assert child.hear() == "t"
        child.signal(signal.SIGINT)
        assert child.wait() != 0
        assert "KeyboardInterrupt" in child.error()
    task = app.get("t")
    assert (task.status, task.attempt, task.recovery_count) == ("pending", 0, 0)
    assert foreign_rows(database, STATES) == [["left"]]


def _completes_and_just_ends(path: str) -> None:
    from outlast import Outlast
    from tests.support.childside import say

    app = Outlast(path)
    app.enqueue("work", id="t")
    (lease,) = app.claim("w")
    say(lease.complete())


def test_a_process_that_ends_with_nothing_held_has_left_and_is_not_mourned(
    database: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Child(_completes_and_just_ends, database) as child:
        assert child.hear_all() == [True]
        assert (child.wait(), child.error()) == (0, "")
    assert foreign_rows(database, STATES) == [["left"]]
    with caplog.at_level(logging.INFO, "outlast"), Outlast(database) as app:
        assert app.heal().dead_workers == ()
    assert "is dead" not in caplog.text
    assert list((database.parent / f"{database.name}-outlast" / "workers").iterdir()) == []


def test_a_process_that_ends_with_a_lease_out_has_died(database: Path, app: Outlast) -> None:
    app.enqueue("work", id="t")
    with Child(_breaks_while_it_works, database, "exit") as child:
        assert child.hear_all() == [[1]]
    assert app.heal().dead_workers == ("w",)
    assert (app.get("t").status, app.get("t").recovery_count) == ("pending", 1)
    assert foreign_rows(database, STATES) == [["dead"]]


def _claims_on_demand(path: str) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path)
    while True:
        say([lease.task_id for lease in app.claim("w")])
        hear()


def test_a_process_that_was_declared_dead_begins_anew_and_is_recovered_like_any_other(
    database: Path, app: Outlast
) -> None:
    """Claims under a row that says dead would belong to nobody's judgement for ever."""
    app.enqueue_many("work", range(2), id=["a", "b"])
    with Child(_claims_on_demand, database) as child:
        assert child.hear() == ["a"]
        foreign_rows(database, "UPDATE workers SET state = 'dead', ended_at = registered_at")
        child.say()
        assert child.hear() == ["b"]
        assert foreign_rows(database, STATES) == [["dead"], ["alive"]]
        child.kill()
    assert app.heal().entries_reclaimed == 2
    assert app.counts()["pending"] == 2
    assert app.heal().entries_reclaimed == 0


def test_tasks_of_ended_workers_are_recovered_by_heal(database: Path, app: Outlast) -> None:
    app.enqueue("work", id="t")
    with Child(_claims_on_demand, database) as child:
        assert child.hear() == ["t"]
        child.kill()
    foreign_rows(database, "UPDATE workers SET state = 'left', ended_at = registered_at")
    assert app.heal().entries_reclaimed == 1
    assert app.get("t").status == "pending"


@pytest.mark.parametrize("again", ["another process", "this process"])
def test_a_store_that_could_not_say_goodbye_frees_its_tasks_at_once(
    database: Path,
    make_app: Callable[..., Outlast],
    monkeypatch: pytest.MonkeyPatch,
    again: str,
) -> None:
    """Its lock file stays and its lock is free: whoever looks next knows."""
    app = make_app()
    app.enqueue("work", id="t")
    app.claim("w")
    real = Writer.run_batch

    def stalled(self: Writer, batch: Batch) -> None:
        if {member.context for member in batch.members} & {"settle", "close"}:
            raise QueueStalled(1, 30.0)
        real(self, batch)

    with monkeypatch.context() as patched:
        patched.setattr(Writer, "run_batch", stalled)
        app.close()
    assert foreign_rows(database, "SELECT status FROM tasks") == [["running"]]
    if again == "another process":
        with Child(_claims_on_demand, database) as child:
            assert child.hear() == ["t"]
    else:
        assert [lease.task_id for lease in make_app().claim("w2")] == ["t"]


def test_a_worker_that_lives_is_never_mourned_by_the_one_that_leaves(
    database: Path, app: Outlast, clock: ManualClock
) -> None:
    app.enqueue_many("work", range(2), id=["a", "b"])
    with Child(_claims_on_demand, database) as child:
        assert child.hear() == ["a"]
        (lease,) = app.claim("mine")
        app.close()
        assert foreign_rows(database, "SELECT name, state FROM workers ORDER BY seq") == [
            ["w", "alive"], ["mine", "left"],
        ]  # fmt: skip
        assert foreign_rows(database, "SELECT id, status FROM tasks ORDER BY id") == [
            ["a", "running"], ["b", "pending"],
        ]  # fmt: skip
        assert lease.task_id == "b"


def _older_store_with_a_lease_of_another_machine(database: Path, clock: ManualClock) -> None:
    """As the version before this one left it: a second of lease, and nobody here to judge by."""
    now = clock.now()
    with closing(Hand(database)) as hand:
        apply_migrations(hand.connection)
        hand.run(
            "INSERT INTO workers (incarnation, name, host, boot_id, pid, pid_started, lock_inode,"
            " pid_namespace, lock_file, registered_at, beat_at, beat_mono_ms)"
            " VALUES ('i', 'w', 'h', 'another', 1, 1, 1, 'n', 'gone', ?1, ?1, ?2)",
            *now,
        )
        hand.run(
            "INSERT INTO tasks (id, status, queue, kind, attempt, token, holder, worker_id,"
            " lease_acquired_at, lease_expires_at, lease_expires_mono_ms, heartbeat_at, created_at,"
            " started_at, state_changed_at, payload_sum)"
            " VALUES ('t', 'running', 'default', 'work', 1, 1, 1, 'w', ?1, ?1 + 1000, ?2 + 1000,"
            " ?1, ?1, ?1, ?1, ?3)",
            *now,
            payload_sum("t", "work", None),
        )
        hand.run(
            "INSERT INTO transitions (task_seq, from_status, to_status, actor, reason, attempt,"
            " token, at) VALUES (1, 'pending', 'running', 'worker', 'claimed', 1, 1, ?)",
            now.utc_ms,
        )


@pytest.mark.parametrize(("seconds", "refused"), [(0.9, True), (1, False)])
def test_a_migration_waits_for_leases_of_another_machine_only_while_they_last(
    database: Path,
    clock: ManualClock,
    seconds: float,
    refused: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody can ask the kernel about their holder; once they are over, nobody needs to."""
    _older_store_with_a_lease_of_another_machine(database, clock)
    know_next(monkeypatch)
    clock.advance(seconds)
    app = Outlast(database, clock=clock)
    if refused:
        with pytest.raises(MigrationRefused, match="has running tasks held by w"):
            app.open()
    else:
        app.open()
        assert app.get("t").status == "pending"
    app.close()
    assert_sound(database)
