"""Who lives, who is silent and who is gone: what the queries say of workers."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from outlast import Outlast
from outlast.testing import ManualClock
from tests.healing.stage import Holder, crashed_holder, events, moves_to_another_host, of_pid
from tests.store.hand import Hand


def moment(clock: ManualClock) -> datetime:
    return datetime.fromtimestamp(clock.now().utc_ms / 1000, UTC)


@pytest.mark.proves("HB-09")
def test_the_fresh_live_and_the_old_the_gone_and_the_unknown_do_not(
    app: Outlast, clock: ManualClock
) -> None:
    app.heartbeat("old")
    clock.advance("90.001s")
    app.heartbeat("fresh")
    app.enqueue("work", id="t")
    with crashed_holder(app.path, ["t"], "gone"):
        assert app.is_alive("fresh") is True
        assert [app.is_alive(name) for name in ("old", "gone", "unknown")] == [False] * 3


@pytest.mark.proves("HB-10")
def test_all_workers_are_listed_newest_first_and_the_dead_with_the_time_of_their_death(
    app: Outlast, clock: ManualClock
) -> None:
    began = moment(clock)
    app.enqueue_many("work", range(2), id=["a", "b"])
    with crashed_holder(app.path, ["a", "b"], "died") as pid:
        clock.advance("10s")
        app.heal()
        died_at = moment(clock)
        app.heartbeat("silent")
        clock.advance("91s")
        app.claim("busy", limit=2)
        busy, silent, died = app.workers()
    assert [(one.name, one.state) for one in (busy, silent, died)] == [
        ("busy", "alive"),
        ("silent", "stale"),
        ("died", "dead"),
    ]
    assert (died.pid, died.ended_at, died.beat_at, died.task_ids) == (pid, died_at, began, ())
    assert [one.silent_seconds for one in (busy, silent, died)] == [0, 91, 101]
    assert busy.task_ids == ("a", "b")
    assert (busy.ended_at, silent.ended_at) == (None, None)


@pytest.mark.proves("HB-10")
@pytest.mark.parametrize(
    ("limit", "listed"),
    [
        (1, ["living too", "living"]),
        (3, ["dead 5", "living too", "living"]),
        (5, ["dead 5", "dead 4", "dead 3", "living too", "living"]),
        (7, ["dead 5", "dead 4", "dead 3", "dead 2", "dead 1", "living too", "living"]),
    ],
)
def test_of_more_dead_than_are_listed_the_newest_are_and_nobody_who_lives_is_left_out(
    app: Outlast, hand: Hand, limit: int, listed: list[str]
) -> None:
    """Guards a list that is shorter than the dead are many: the living are older, and on it."""
    for name in ("living", "living too", *(f"dead {n}" for n in range(1, 6))):
        app.heartbeat(name)
    dead = "UPDATE workers SET state = 'dead', ended_at = beat_at WHERE name LIKE 'dead %'"
    assert hand.run(dead) == 5
    assert [one.name for one in app.workers(limit)] == listed


@pytest.mark.proves("HEAL-03")
def test_a_silent_worker_is_found_although_it_holds_nothing(
    app: Outlast, clock: ManualClock, database: Path
) -> None:
    """One that died idle would otherwise be called alive for ever."""
    with Holder(app.path, "idle, with a comma") as idle, Holder(app.path, "beats") as beating:
        idle.asks("heartbeat")
        beating.asks("heartbeat")
        moves_to_another_host(database, idle.pid)
        clock.advance("91s")
        beating.asks("advance", "91s")
        beating.asks("heartbeat")
        (found,) = app.stale_workers()
        assert (found.name, found.state, found.task_count) == ("idle, with a comma", "stale", 0)
        assert app.heal().dead_workers == ()
        clock.advance("9.001s")
        assert [(one.name, one.state) for one in app.stale_workers()] == [(found.name, "dead")]
        assert app.heal().dead_workers == ("idle, with a comma",)
        assert app.stale_workers() == []
        assert [one["incarnation"] for one in events(database)] == [found.incarnation]
        assert app.is_alive("beats")


@pytest.mark.proves("HB-17")
@pytest.mark.parametrize("seconds_off", [600, -600])
def test_a_process_whose_wall_clock_is_ten_minutes_off_changes_nothing(
    app: Outlast, clock: ManualClock, seconds_off: int
) -> None:
    """Beats and leases run on the one clock that all processes of the host share."""
    app.enqueue_many("work", range(2), id=["theirs", "ours"])
    with Holder(app.path, "off") as off:
        off.asks("step_utc", seconds_off)
        assert off.claims(lease="60s") == ["theirs"]
        app.claim("right", lease="60s")
        assert app.is_alive("off")
        assert off.asks("is_alive", "right")
        for heal in (app.recovery_stats, app.heal):
            assert (heal().entries_reclaimed, heal().dead_workers) == (0, ())
        clock.advance("59.999s")
        off.asks("advance", "59.999s")
        assert off.claims() == []
        assert app.claim("right") == []
        assert app.counts()["running"] == 2
        off.asks("renew", "theirs")
        clock.advance("1ms")
        assert [one.task_id for one in app.claim("right")] == ["ours"]
        assert of_pid(app.workers(), off.pid).silent_seconds == 60


@pytest.mark.proves("HB-19")
def test_a_kind_or_a_task_with_ten_minutes_survives_five_minutes_of_silence(
    make_app: Callable[..., Outlast], clock: ManualClock
) -> None:
    app = make_app(lease_seconds_by_kind={"transcode": 600})
    app.enqueue("transcode", id="by its kind")
    app.enqueue("work", id="usual")
    app.claim("w", limit=2)
    app.enqueue("work", id="by its claim")
    app.claim("w", lease="10m")
    clock.advance("5m")
    assert app.heal().entries_reclaimed == 1
    assert {task.id for task in app.tasks("running")} == {"by its kind", "by its claim"}
    clock.advance("4m 59.999s")
    assert app.heal().entries_reclaimed == 0
    clock.advance("1ms")
    assert app.heal().entries_reclaimed == 2


@pytest.mark.proves("HB-22")
def test_two_minutes_without_a_beat_are_an_alarm_and_take_nothing(
    app: Outlast, clock: ManualClock
) -> None:
    app.enqueue_many("work", range(3))
    beating, *_ = app.claim("w", limit=3)
    clock.advance("120s")
    assert (app.stats().leases.active, app.stats().leases.stale) == (3, 0)
    clock.advance("1ms")
    beating.renew()
    assert (app.stats().leases.active, app.stats().leases.stale) == (3, 2)
    assert app.heal().entries_reclaimed == 0
    assert app.claim("another") == []
    assert app.counts()["running"] == 3
