"""Workers that nobody here can ask: their silence is judged, and whatever breaks it counts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast, WorkerState
from outlast.testing import ManualClock
from tests.healing.stage import Holder, events, moves_to_another_host, of_pid
from tests.store.hand import Hand, store_of
from tests.support.foreign import assert_sound

PATIENCE = "100s"


@pytest.mark.proves("HB-21")
def test_one_that_was_declared_dead_for_its_silence_can_neither_beat_nor_finish(
    app: Outlast, clock: ManualClock, database: Path, hand: Hand
) -> None:
    """It lives on and knows nothing of it; no second result may come of that."""
    app.enqueue("work", id="t")
    with Holder(app.path, "far") as far:
        assert far.claims(lease="1h") == ["t"]
        moves_to_another_host(database, far.pid)
        clock.advance(PATIENCE)
        assert (app.heal().dead_workers, app.get("t").status) == ((), "running")
        clock.advance("1ms")
        assert (app.heal().dead_workers, app.get("t").status) == (("far",), "pending")
        row = "SELECT state, ended_at, beat_at FROM workers WHERE pid = ? ORDER BY seq"
        buried = ("dead", clock.now().utc_ms, clock.now().utc_ms - 100_001)
        assert hand.rows(row, far.pid) == [buried]
        (lease,) = app.claim("near")
        assert far.asks("renew", "t") == "LeaseLost"
        assert far.asks("complete", "t", "late") == "LeaseLost"
        far.asks("heartbeat")
        first, second = hand.rows(row, far.pid)
        assert (first, second[0]) == (buried, "alive")
        assert lease.complete("ours")
    assert app.get("t").result == "ours"
    assert [str(move.to_status) for move in app.history("t")].count("completed") == 1
    assert_sound(database)


def test_a_silent_one_is_judged_by_the_settings(
    make_app: Callable[..., Outlast], clock: ManualClock, database: Path
) -> None:
    app = make_app(
        heartbeat_interval_seconds=1, heartbeat_stale_seconds=5, heartbeat_grace_seconds=2
    )
    app.enqueue("work", id="t")
    with Holder(app.path) as far:
        far.claims(lease="1h")
        moves_to_another_host(database, far.pid)
        clock.advance("7s")
        assert app.heal().entries_reclaimed == 0
        clock.advance("1ms")
        assert app.heal().entries_reclaimed == 1


@pytest.mark.parametrize("sign", ["heartbeat", "renew"])
def test_any_sign_of_life_keeps_a_distant_worker_alive(
    app: Outlast, clock: ManualClock, database: Path, sign: str
) -> None:
    """One that claims by hand renews its leases and gives no other sign."""
    app.enqueue("work", id="t")
    with Holder(app.path, "far") as far:
        far.claims(lease="1h")
        moves_to_another_host(database, far.pid)
        for _ in range(3):
            clock.advance("99s")
            far.asks("advance", "99s")
            far.asks(sign, *(["t"] if sign == "renew" else []))
            assert not store_of(app).recovery.is_due(clock.now(), app._patience)
            dry = app.recovery_stats()
            assert (dry.entries_reclaimed, dry.dead_workers) == (0, ())
            assert [one.orphaned for one in app.recovery_plan()] == [None]
            assert app.heal().dead_workers == ()
            assert [one.state for one in app.workers()] == [
                WorkerState.ALIVE if sign == "heartbeat" else WorkerState.STALE
            ]
        assert far.asks("complete", "t") is True


@pytest.mark.proves("HEAL-19")
@pytest.mark.parametrize("sign", ["heartbeat", "renew"])
def test_a_sign_of_life_between_the_verdict_and_the_taking_wins(
    app: Outlast,
    clock: ManualClock,
    database: Path,
    monkeypatch: pytest.MonkeyPatch,
    sign: str,
) -> None:
    app.enqueue("work", id="t")
    with Holder(app.path, "far") as far:
        far.claims(lease="1h")
        moves_to_another_host(database, far.pid)
        clock.advance("101s")
        far.asks("advance", "101s")
        recovery = store_of(app).recovery
        put_back = recovery._batch
        signs: list[Any] = []

        def breaks_its_silence_first(*arguments: Any) -> Any:
            signs.append(far.asks(sign, *(["t"] if sign == "renew" else [])))
            return put_back(*arguments)

        monkeypatch.setattr(recovery, "_batch", breaks_its_silence_first)
        stats = app.heal()
        assert len(signs) == 1
        assert (stats.entries_reclaimed, stats.dead_workers) == (0, ())
        assert (app.get("t").status, of_pid(app.workers(), far.pid).ended_at) == ("running", None)
        assert events(database) == []
        assert far.asks("complete", "t") is True


@pytest.mark.proves("HEAL-19")
def test_a_renewal_between_finding_a_lease_that_ran_out_and_its_reset_wins(
    app: Outlast, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.enqueue_many("work", range(2), id=["renewed", "lost"])
    with Holder(app.path) as holder:
        assert holder.claims(2, lease="10s") == ["renewed", "lost"]
        clock.advance("10s")
        holder.asks("advance", "10s")
        recovery = store_of(app).recovery
        put_back = recovery._batch
        assert recovery.is_due(clock.now(), app._patience)

        def renewed_first(*arguments: Any) -> Any:
            holder.asks("renew", "renewed")
            return put_back(*arguments)

        monkeypatch.setattr(recovery, "_batch", renewed_first)
        assert app.heal().entries_reclaimed == 1
        assert (app.get("renewed").status, app.get("lost").status) == ("running", "pending")
        assert holder.asks("complete", "lost") == "LeaseLost"
        assert holder.asks("complete", "renewed") is True


@pytest.mark.parametrize("is_found", ["now", "after a second reboot"])
def test_what_another_boot_left_goes_back_when_its_lease_ends_by_utc(
    app: Outlast, clock: ManualClock, database: Path, is_found: str
) -> None:
    """After a reboot monotonic times say nothing; the wall clock is all that is left."""
    app.enqueue("work", id="t")
    with Holder(app.path) as far:
        far.claims(lease="60s")
        moves_to_another_host(database, far.pid)
        clock.advance("59.999s")
        assert app.heal().entries_reclaimed == 0
        if is_found != "now":
            clock._mono_ms = 5
        clock.advance("1ms")
        assert app.heal().entries_reclaimed == 1
        assert app.history("t")[-1].reason == "lease_expired_retry"
