"""What is done with orphans, by action, kind and mode; and nothing ends the looking for them."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from outlast import DatabaseError, Outlast
from outlast.maintenance import loop as detecting
from outlast.maintenance.loop import MaintenanceLoop
from outlast.store.ops.recovery.recovery import Recovery
from outlast.testing import ManualClock
from tests.orphans.left_behind import LONG, killed, stranger
from tests.store.hand import Hand

PATIENCE_SECONDS = 60


def both_ways(make_app: Callable[..., Outlast], database: Path, **settings: Any) -> Outlast:
    """A task whose worker was killed, another one whose lease ran out; nothing is healed yet."""
    app = make_app(heal_at_claim=False, **settings)
    app.enqueue_many("work", range(2), id=["expired", "lost"])
    app.claim("slow", lease="1s")
    killed(database)
    return app


def outcome(app: Outlast) -> list[tuple[str, str, int, int, str | None]]:
    """Of each its status, the reason of its last move, attempts, recoveries, why it is parked."""
    return [
        (
            task.status.value,
            app.history(task.id)[-1].reason,
            task.attempt,
            task.recovery_count,
            task.parked and task.parked.value,
        )
        for task in (app.get("lost"), app.get("expired"))
    ]


FAILED = (
    ("failed", "crash_policy_fail", 1, 0, None),
    ("failed", "lease_expired_policy_fail", 1, 0, None),
)
LEFT_ALONE = (("running", "claimed", 1, 0, None), ("running", "claimed", 1, 0, None))


@pytest.mark.parametrize(
    ("settings", "moved"),
    [
        (
            {},
            (
                ("pending", "crash_retry", 1, 1, None),
                ("pending", "lease_expired_retry", 1, 1, None),
            ),
        ),
        (
            {"recovery_action": "pending"},
            (
                ("pending", "crash_reset", 0, 1, None),
                ("pending", "lease_expired_reset", 0, 1, None),
            ),
        ),
        (
            {"recovery_mode": "manual"},
            (
                ("pending", "crash_retry", 1, 1, "hold"),
                ("pending", "lease_expired_retry", 1, 1, "hold"),
            ),
        ),
        ({"recovery_action": "fail"}, FAILED),
        ({"recovery_action": "none", "recovery_action_by_kind": {"work": "fail"}}, FAILED),
        ({"recovery_action": "none"}, LEFT_ALONE),
        ({"recovery_action_by_kind": {"work": "none"}}, LEFT_ALONE),
        ({"recovery_mode": "off"}, LEFT_ALONE),
        ({"recovery_enabled": False}, LEFT_ALONE),
    ],
    ids=[
        "by default",
        "pending",
        "manual",
        "fail",
        "fail by kind",
        "none",
        "none by kind",
        "off",
        "switched off",
    ],
)
def test_an_orphan_moves_as_action_kind_and_mode_say(
    make_app: Callable[..., Outlast],
    database: Path,
    clock: ManualClock,
    settings: dict[str, Any],
    moved: tuple[tuple[Any, ...], tuple[Any, ...]],
) -> None:
    lost, expired = moved
    app = both_ways(make_app, database, **settings)
    clock.advance("1m")
    report = app.recover()
    assert outcome(app) == [lost, expired]
    assert report.tasks_put_back == sum(one[0] == "pending" for one in (lost, expired))
    assert report.tasks_failed == sum(one[0] == "failed" for one in (lost, expired))
    assert report.tasks_held == sum(one[4] == "hold" for one in (lost, expired))
    if lost[4] == "hold":
        assert app.claim("w", limit=9) == []


@pytest.mark.proves("HEAL-16")
def test_reclaiming_takes_living_leases_only_by_force(app: Outlast, clock: ManualClock) -> None:
    app.enqueue_many("work", range(2), id=["ran out", "living"])
    app.claim("slow", lease="10s")
    living = app.claim("slow", lease=LONG)
    clock.advance("1m")
    assert app.reclaim_stale(10_000) == 0
    assert app.reclaim_stale(0) == 1
    assert [app.get(one).status.value for one in ("ran out", "living")] == ["pending", "running"]
    assert app.reclaim_stale(10_000, force=True) == 0
    living[0].renew()
    assert app.reclaim_stale(0, force=True) == 1
    assert app.get("living").status.value == "pending"


def test_a_dead_worker_keeps_no_named_lock(app: Outlast, database: Path) -> None:
    app.open()
    hand = Hand(database)
    stranger(app, hand, pid=2**22 + 1)
    hand.run(
        "INSERT INTO locks (name, holder, worker_id, token, acquired_at, expires_at,"
        " expires_mono_ms) SELECT 'door', seq, name, 1, 1, 9e15, 9e15 FROM workers"
    )
    assert hand.value("SELECT count(*) FROM locks") == 1
    app.heal()
    assert hand.value("SELECT count(*) FROM locks") == 0
    hand.close()


@pytest.mark.proves("HEAL-12")
def test_a_claim_goes_on_although_healing_fails(
    app: Outlast, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.enqueue("work", id="t")
    clock.advance("1m")

    def fails(*given: Any) -> bool:
        raise DatabaseError("heal", OSError("disk"))

    monkeypatch.setattr(Recovery, "is_due", fails)
    assert [lease.task_id for lease in app.claim("w")] == ["t"]


def test_a_detector_looks_on_after_an_error(
    make_app: Callable[..., Outlast], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []

    def fails(*given: Any) -> bool:
        looks.append(1)
        raise DatabaseError("heal", OSError("disk"))

    monkeypatch.setattr(detecting, "LATE", 1e9)
    app = make_app(detection_interval_seconds=0.01)
    app.open()
    monkeypatch.setattr(Recovery, "is_due", fails)
    (thread,) = (one for one in threading.enumerate() if one.name == "outlast-maintenance")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(looks) < 3:
        assert thread.is_alive(), "it looks no more"
        assert time.monotonic() < deadline, "nobody looked"
        time.sleep(0.01)


def test_a_detector_whose_tick_came_late_takes_nothing_from_anybody(
    make_app: Callable[..., Outlast], database: Path
) -> None:
    """It was stopped, or the machine slept: so may those have been that it would judge."""
    app = make_app(detection_interval_seconds=60)
    app.open()
    hand = Hand(database)
    stranger(app, hand, pid=2**22 + 1)
    hand.close()
    seconds = [0.0]
    detector = MaintenanceLoop(app._handle.serve(), lambda: seconds[0])
    seconds[0] += 60 * detecting.LATE + 1
    assert not detector.tick()
    assert app.get("t").status.value == "running"
    seconds[0] += 60
    assert detector.tick()
    assert app.get("t").status.value == "pending"


def test_the_detector_heals_those_who_never_claim(
    make_app: Callable[..., Outlast], database: Path
) -> None:
    app = make_app(detection_interval_seconds=0.05)
    app.enqueue("work", id="t")
    killed(database)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while app.get("t").status.value != "pending":
        assert time.monotonic() < deadline, "nobody looked"
        time.sleep(0.01)
