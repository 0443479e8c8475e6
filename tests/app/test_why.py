"""One sentence on why a task is where it is: the cause first, and the evidence in it."""

import json
import os
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast, PermanentError
from outlast.maintenance.loop import MaintenanceLoop
from outlast.testing import ManualClock
from tests.store.hand import Hand, store_of
from tests.support.children import Child

PID = os.getpid()
NOBODY = "pending: no live worker serves kind `work` on queue `default`"
NEXT = "pending: next in queue default, waiting for"


def serving(app: Outlast, clock: ManualClock, name: str = "w", **differs: Any) -> None:
    """A worker of this process says what it serves, as a running one does with each beat."""
    serves = {"queues": ["default"], "kinds": ["work"], "concurrency": 8} | differs
    stuck = serves.pop("stuck", None)
    store_of(app).workers.beat(
        name,
        [],
        clock.now(),
        serves=json.dumps(serves),
        stuck=None if stuck is None else json.dumps(stuck),
    )


def fail_times(app: Outlast, clock: ManualClock, times: int, error: str = "out of paper") -> None:
    for _ in range(times):
        clock.advance("10m")
        (lease,) = app.claim("w")
        lease.fail(error)


# Who might take it


def test_a_task_without_any_live_worker_says_so(app: Outlast) -> None:
    app.enqueue("work", id="t1")
    assert app.why("t1") == NOBODY


@pytest.mark.parametrize(
    "serves", [{"kinds": ["mail"]}, {"queues": ["gpu", "other"]}, {"kinds": []}]
)
def test_workers_of_other_kinds_or_queues_are_told_of_but_do_not_count(
    app: Outlast, clock: ManualClock, serves: dict[str, Any]
) -> None:
    app.enqueue("work", id="t1")
    serving(app, clock, **serves)
    assert app.why("t1") == f"{NOBODY} (worker w (pid {PID}) lives and serves others)"
    serving(app, clock, "w2", **serves)
    assert app.why("t1") == f"{NOBODY} (2 workers live and serve others)"
    serving(app, clock, "w3")
    assert "no live worker" not in app.why("t1")


def _serves_and_waits(path: str) -> None:
    from outlast import Outlast, SystemClock
    from tests.store.hand import store_of
    from tests.support.childside import hear, say

    app = Outlast(path).open()
    serves = '{"queues": ["gpu"], "kinds": ["x"], "concurrency": 1}'
    store_of(app).workers.beat("w", [], SystemClock().now(), serves=serves)
    say("serves")
    hear()


def test_a_worker_that_was_killed_serves_nobody_any_more(database: Path) -> None:
    app = Outlast(database)
    app.enqueue("x", id="t1", queue="gpu")
    with Child(_serves_and_waits, database) as child:
        assert child.hear() == "serves"
        waits = f"waiting for worker w (pid {child.pid}), which holds 0 tasks, to claim it"
        assert app.why("t1") == f"pending: next in queue gpu, {waits}"
        child.kill()
    assert app.why("t1") == "pending: no live worker serves kind `x` on queue `gpu`"
    app.close()


def test_one_who_claims_by_hand_may_serve_anything(app: Outlast, clock: ManualClock) -> None:
    app.enqueue("work", id="t1")
    app.heartbeat("by hand")
    assert app.why("t1") == f"{NEXT} a worker to claim it"
    serving(app, clock, kinds=["mail"])
    assert app.why("t1") == f"{NEXT} a worker to claim it"


def test_those_who_serve_it_are_named_with_what_they_hold(app: Outlast, clock: ManualClock) -> None:
    app.enqueue_many("work", range(3), id=["t1", "t2", "t3"])
    app.claim("w", limit=2)
    serving(app, clock)
    waits = f"worker w (pid {PID}), which holds 2 tasks, to claim it"
    assert app.why("t3") == f"{NEXT} {waits}"
    serving(app, clock, "w2", kinds=None)
    assert app.why("t3") == f"{NEXT} one of 2 workers to claim it"


def test_a_worker_that_went_silent_is_no_hope(app: Outlast, clock: ManualClock) -> None:
    app.enqueue("work", id="t1")
    serving(app, clock)
    clock.advance("10m")
    silent = f"worker w (pid {PID}) serves it and has been silent for 10 min"
    assert app.why("t1") == f"pending: {silent}"
    serving(app, clock, "w2")
    assert app.why("t1") == f"{NEXT} one of 2 workers to claim it"


def test_a_worker_that_cannot_get_rid_of_the_last_attempt_does_not_take_the_next(
    app: Outlast, clock: ManualClock
) -> None:
    app.enqueue("work", id="t1")
    handler = {"task_id": "t1", "kind": "work", "since_ms": clock.now().utc_ms}
    serving(app, clock, stuck=[handler])
    assert app.why("t1") == (
        f"pending: worker w (pid {PID}) still runs an attempt of it that was ended at"
        " 2027-01-15T08:00:00+00:00 and does not stop, and takes it only after that"
    )
    app.enqueue("work", id="t2")
    assert "still runs" not in app.why("t2")


# Its place in the line


def test_tasks_of_higher_priority_and_earlier_ones_come_first(app: Outlast) -> None:
    app.heartbeat("by hand")
    app.enqueue_many("work", range(3))
    app.enqueue("work", id="t1")
    assert app.why("t1") == "pending: behind 3 that came earlier in queue default"
    app.enqueue_many("work", range(120), priority=5)
    app.enqueue_many("other", range(7), priority=9, queue="elsewhere")
    assert app.why("t1") == (
        "pending: behind 120 of higher priority and 3 that came earlier in queue default"
    )
    app.enqueue("work", id="t2", priority=1)
    assert app.why("t2") == "pending: behind 120 of higher priority in queue default"


def test_a_long_line_is_counted_only_so_far(app: Outlast) -> None:
    app.heartbeat("by hand")
    app.enqueue_many("work", range(1500))
    app.enqueue("work", id="t1")
    assert app.why("t1") == "pending: behind 1000 or more that came earlier in queue default"


# What it waits for


def test_a_delay_names_its_end_and_the_failures_that_caused_it(
    app: Outlast, clock: ManualClock
) -> None:
    app.enqueue("work", id="t1", delay="60s")
    assert app.why("t1") == "delayed until 2027-01-15T08:01:00.000+00:00"
    fail_times(app, clock, 1)
    assert re.fullmatch(r"delayed until \S+ after a failure \(out of paper\)", app.why("t1"))
    fail_times(app, clock, 1, "out of ink")
    assert re.fullmatch(r"delayed until \S+ after 2 failures \(out of ink\)", app.why("t1"))
    clock.advance("10m")
    assert re.fullmatch(
        r"pending: its delay ended at \S+, the next claim may take it, after 2 failures"
        r" \(out of ink\)",
        app.why("t1"),
    )
    app.pause("default")
    assert app.why("t1") == (
        "queue default is paused: outlast queue resume default (or app.unpause)"
    )


@pytest.mark.parametrize("reason", ["approval", "event", "hold"])
def test_a_parked_task_names_its_reason(app: Outlast, reason: str) -> None:
    app.enqueue("work", id="t1")
    app.park("t1", reason)
    assert app.why("t1") == (
        f"parked because of {reason}; to let it run: outlast task force pending t1 (or app.unpark)"
    )


def test_what_recovery_holds_names_the_way_to_approve_it(
    make_app: Callable[..., Outlast], clock: ManualClock
) -> None:
    app = make_app(recovery_mode="manual")
    app.enqueue("work", id="t1")
    app.claim("w")
    clock.advance("5m")
    app.heal()
    assert app.why("t1").startswith(
        "recovery put it back and holds it for approval: outlast queue approve t1"
        " (or app.approve_recovery) after a crash ("
    )
    assert app.approve_recovery("t1", by="operator/ada") == ["t1"]
    app.park("t1")
    assert app.why("t1").startswith("parked because of hold; "), "a person's hold is no recovery's"


def test_an_orphan_that_recovery_leaves_alone_waits_for_a_person(
    make_app: Callable[..., Outlast], clock: ManualClock
) -> None:
    app = make_app(recovery_action_by_kind={"pay": "none"})
    app.enqueue("pay", id="t1")
    app.claim("w")
    assert "to a person" not in app.why("t1")
    clock.advance("5m")
    app.heal()
    assert app.why("t1").endswith(
        "which ran out; recovery leaves kind pay to a person:"
        " outlast task force retry|fail t1 (or app.force)"
    )


def test_a_task_that_came_back_from_a_crash_says_so(app: Outlast, clock: ManualClock) -> None:
    app.enqueue("work", id="t1")
    for crashes in ("a crash", "2 crashes"):
        app.claim("w")
        clock.advance("5m")
        app.heal()
        app.heartbeat("w")
        ran_out = f"after {crashes} (the lease of worker w ran out)"
        assert app.why("t1") == f"{NEXT} a worker to claim it, {ran_out}"
    fail_times(app, clock, 1)
    assert app.why("t1").endswith(" after 1 failure and 2 crashes (out of paper)")


def test_a_task_without_an_attempt_left_says_what_the_next_claim_does(app: Outlast) -> None:
    app.enqueue("work", id="t1", max_recoveries=1)
    with closing(Hand(app.path)) as hand:
        hand.run("UPDATE tasks SET recovery_count = 2, crashes_in_row = 2, attempt = 2")
    assert app.why("t1") == (
        "pending: its budget is spent (2 crashes in a row, of 1 taken back), and the next claim"
        " will fail it"
    )
    assert app.claim("w") == []
    assert app.get("t1").status == "failed"


# Who holds it


def test_the_holder_is_named_with_its_process_and_its_beat(
    app: Outlast, clock: ManualClock
) -> None:
    app.enqueue("work", id="t1")
    app.claim("worker-7")
    clock.advance("3s")
    assert app.why("t1") == (
        f"running, attempt 1, held by worker worker-7 (pid {PID}, this process, beat 3 s ago)"
        " with a lease until 2027-01-15T08:05:00+00:00"
    )
    clock.advance("4m")
    assert f"(pid {PID}, this process, stale, beat 4 min ago)" in app.why("t1")
    clock.advance("57s")
    assert app.why("t1").endswith(
        " with a lease until 2027-01-15T08:05:00+00:00, which ran out; recovery is due and the"
        " next claim may put it back"
    )


def _claims_and_waits(path: str) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path)
    app.enqueue("work", id="t1")
    app.claim("w")
    say("claimed")
    hear()


def test_a_holder_that_was_killed_is_called_dead_and_another_task_is_not_blamed(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It would be told of the death by the kernel, and put the task back before we ask.
    monkeypatch.setattr(MaintenanceLoop, "start", lambda detector: None)
    app = Outlast(database)
    with Child(_claims_and_waits, database) as child:
        assert child.hear() == "claimed"
        app.enqueue("work", id="mine")
        app.claim("me")
        held = rf"running, attempt 1, held by worker w \(pid {child.pid}, beat \d+ s ago\) with.*"
        assert re.fullmatch(held, app.why("t1"))
        child.kill()
        assert re.search(rf"worker w \(pid {child.pid}, dead, beat \d+ s ago\)", app.why("t1"))
        assert app.why("t1").endswith("; recovery is due and the next claim may put it back")
        assert "recovery is due" not in app.why("mine")
    app.close()


def test_a_prefetched_task_waits_for_its_turn_where_it_is_held(app: Outlast) -> None:
    app.enqueue_many("work", range(2), id=["t1", "t2"])
    first, _ = app.prefetch("w", limit=2)
    first.start()
    assert "held by worker w" in app.why("t1")
    assert re.match(
        rf"running, attempt 1, prefetched by worker w \(pid {PID}, this process, beat 0 s ago\)"
        r" and waiting there for its turn with a lease until ",
        app.why("t2"),
    )


# What became of it


def test_a_spent_budget_names_its_size_and_the_last_error(
    make_app: Callable[..., Outlast], clock: ManualClock
) -> None:
    app = make_app(lease_seconds=10_000)
    app.enqueue("work", id="t1")
    fail_times(app, clock, 4)
    assert re.fullmatch(
        r"failed at \S+: it failed 4 times and its budget of 3 retries is spent"
        r" \(last error: out of paper\)",
        app.why("t1"),
    )
    app.enqueue("work", id="t2", max_retries=0)
    app.claim("w")[0].fail(ValueError("no"))
    assert "it failed once and its budget of 0 retries is spent" in app.why("t2")


def test_a_task_that_crashed_too_often_names_that_budget(app: Outlast, clock: ManualClock) -> None:
    app.enqueue("work", id="t1")
    for _ in range(4):
        app.claim("w")
        clock.advance("5m")
        app.heal()
    assert re.fullmatch(
        r"failed at \S+: it crashed 4 times in a row, and its budget of recoveries is spent"
        r" \(last error: lost 4 of 4 times in kind `work`: the lease of worker w ran out\)",
        app.why("t1"),
    )


def test_of_a_long_error_the_beginning_of_the_first_line_is_told(app: Outlast) -> None:
    app.enqueue("work", id="t1")
    (lease,) = app.claim("w")
    lease.fail(PermanentError("x" * 300 + "\nsecond line"))
    sentence = app.why("t1")
    assert sentence.endswith(": permanent error (PermanentError: " + "x" * 184 + "…)")
    assert "second line" not in sentence
