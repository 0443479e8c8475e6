"""Tasks that are lost again and again: bounded, explained in a sentence, and shown to a person."""

import re
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from outlast import Outlast, Suspect
from outlast.testing import ManualClock
from tests.healing.stage import Holder, crashed_holder
from tests.store.hand import Hand, store_of


def suspects(app: Outlast) -> tuple[Suspect, ...]:
    return app.recovery_status().suspects


def lost_by_crash(app: Outlast, task_id: str, times: int) -> None:
    for n in range(times):
        with crashed_holder(app.path, [task_id], f"w{n}"):
            app.heal()


def lost_by_lease(app: Outlast, clock: ManualClock, task_id: str, times: int) -> None:
    for _ in range(times):
        assert [one.task_id for one in app.claim("w", lease="10s")] == [task_id]
        clock.advance("10s")
        app.heal()


def test_a_task_that_kills_its_worker_each_time_is_quarantined_with_a_sentence(
    app: Outlast, database: Path
) -> None:
    app.enqueue("transcode", id="poison")
    app.enqueue("transcode", id="good")
    pid = 0
    for n in range(4):
        with Holder(database, f"w{n}") as holder:
            assert holder.claims(lease="1h") == ["poison"]
            pid = holder.pid
            holder.kill()
            app.heal()
    task = app.get("poison")
    assert (task.status, task.attempt) == ("failed", 4)
    assert task.error is not None
    assert re.search(r"died 4 of 4 times in kind `transcode`: ", task.error)
    assert f"pid {pid}" in task.error
    assert "died 4 of 4 times" in app.why("poison")
    (lease,) = app.claim("next")
    assert lease.task_id == "good"
    assert [(one.task_id, one.status) for one in suspects(app)] == [("poison", "failed")]


def test_what_ends_its_process_is_told_from_what_outlives_its_lease(
    make_app: Callable[..., Outlast], clock: ManualClock
) -> None:
    app = make_app(max_recovery_attempts=9)
    app.enqueue("work", id="crashes")
    lost_by_crash(app, "crashes", 3)
    app.park("crashes")
    app.enqueue("slow", id="expires")
    lost_by_lease(app, clock, "expires", 2)
    first, second = suspects(app)
    assert (first.task_id, first.kind, first.status, first.recoveries) == (
        "crashes",
        "work",
        "pending",
        3,
    )
    assert first.likely_cause.startswith("it ends the process that runs it (3 times): worker w2")
    assert (second.task_id, second.recoveries) == ("expires", 2)
    assert second.likely_cause == (
        "its lease ran out 2 times while its worker gave no sign of life: the lease of kind slow"
        " is too short for work that does not renew it"
    )


def test_a_worker_that_beat_and_lost_its_lease_all_the_same_points_to_the_clock(
    app: Outlast, clock: ManualClock
) -> None:
    app.open()
    serves = '{"queues": ["default"], "kinds": null, "concurrency": 1}'
    store_of(app).workers.beat("w", [], clock.now(), serves=serves)
    app.enqueue("work", id="t")
    lost_by_lease(app, clock, "t", 2)
    (found,) = suspects(app)
    assert "although its worker beat: the machine slept or its clock was set" in found.likely_cause


def test_one_loss_makes_nobody_a_suspect(app: Outlast, clock: ManualClock) -> None:
    app.enqueue("work", id="t")
    lost_by_lease(app, clock, "t", 1)
    assert suspects(app) == ()
    lost_by_lease(app, clock, "t", 1)
    assert [one.task_id for one in suspects(app)] == ["t"]


@pytest.mark.parametrize("peak", [None, 4_200_000_000])
def test_the_peak_a_worker_told_of_stands_in_the_error(
    app: Outlast, clock: ManualClock, database: Path, peak: int | None
) -> None:
    app.enqueue("work", id="t")
    with Holder(database) as holder:
        holder.claims(lease="1h")
        with closing(Hand(database)) as hand:
            hand.run("UPDATE workers SET peak_memory_bytes = ?", peak)
        holder.kill()
        app.heal()
    assert ("peak 3.9 GiB" in (app.get("t").error or "")) == (peak is not None)


def test_the_worst_are_found_as_fast_among_many(
    make_app: Callable[..., Outlast], database: Path
) -> None:
    """Only of those that are shown is it asked whom they were lost with."""
    app = make_app(synchronous="normal")
    app.enqueue_many("work", [None] * 2000)
    app.close()
    for n in range(2):
        with Holder(database, f"w{n}") as holder:
            holder.claims(2000, lease="1h")
            holder.kill()
        app.open().close()
    began = time.monotonic()
    assert len(suspects(app)) == 10
    assert time.monotonic() - began < 1
