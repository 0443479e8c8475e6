"""The five members of the heartbeat interface: also taking somebody's word for a death."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from outlast import AsyncOutlast, Heartbeats, InvalidInput, LeaseLost, Outlast, WorkerState
from outlast.testing import ManualClock
from tests.healing.stage import Holder, add_lock, events, lock_names
from tests.store.hand import Hand, store_of
from tests.support.foreign import assert_sound

MEMBERS = {"heartbeat", "is_alive", "stale_workers", "mark_dead", "workers"}


def seen_through(heartbeats: Heartbeats, clock: ManualClock) -> list[Any]:
    """One worker's life as anybody can drive it who knows nothing but the interface."""
    heartbeats.heartbeat("w", progress={"done": 1})
    seen: list[Any] = [heartbeats.is_alive("w"), heartbeats.stale_workers()]
    clock.advance("90.001s")
    (stale,) = heartbeats.stale_workers()
    seen += [heartbeats.is_alive("w"), stale.state]
    dead = heartbeats.mark_dead(stale.incarnation, by="alice")
    assert dead is not None
    seen += [dead.worker, heartbeats.stale_workers(), heartbeats.mark_dead(stale.incarnation)]
    return [*seen, [one.state for one in heartbeats.workers()]]


@pytest.mark.proves("API-02")
def test_an_outlast_is_a_heartbeat_service(app: Outlast, clock: ManualClock) -> None:
    assert seen_through(app, clock) == [
        True, [], False, WorkerState.STALE, "w", [], None, [WorkerState.DEAD],
    ]  # fmt: skip


@pytest.mark.proves("API-02")
def test_the_interface_has_five_members_and_both_apps_answer_them_alike() -> None:
    members = {name for name in vars(Heartbeats) if not name.startswith("_")}
    assert members == MEMBERS
    for name in MEMBERS:
        wanted = inspect.signature(getattr(Heartbeats, name)).parameters
        for app in (Outlast, AsyncOutlast):
            found = inspect.signature(getattr(app, name)).parameters
            assert list(found) == list(wanted), name
            assert [one.default for one in found.values()] == [
                one.default for one in wanted.values()
            ]


@pytest.mark.proves("API-02")
def test_marking_a_silent_worker_dead_frees_what_it_holds_and_names_who_did_it(
    app: Outlast, clock: ManualClock, hand: Hand, database: Path
) -> None:
    app.enqueue_many("work", range(2), id=["a", "b"])
    with Holder(database, "hangs") as hanging:
        hanging.claims(2, lease="1h")
        add_lock(hand, "merge", clock, 3600, hanging.pid)
        clock.advance("91s")
        assert app.heal().dead_workers == ()
        (stale,) = app.stale_workers()
        assert stale.task_ids == ("a", "b")
        dead = app.mark_dead(stale.incarnation, by="alice")
        assert dead is not None
        assert (dead.worker, dead.pid, dead.tasks_put_back) == ("hangs", hanging.pid, 2)
        assert dead.because.endswith("it was declared dead by operator/alice")
        assert [move.actor for move in app.history("a")] == ["worker", "operator/alice"]
        assert "declared dead by operator/alice" in (app.get("a").error or "")
        assert [(one["pid"], one["because"]) for one in events(database)] == [
            (hanging.pid, dead.because)
        ]
        assert lock_names(hand) == []
        assert [one.task_id for one in app.claim("next", limit=2)] == ["a", "b"]
        assert hanging.asks("complete", "a") == "LeaseLost"
        hanging.asks("advance", "91s")
        hanging.asks("heartbeat")
        assert [(one.name, one.state) for one in app.workers()] == [
            ("hangs", "alive"),
            ("next", "alive"),
            ("hangs", "dead"),
        ]
    assert_sound(database)


def test_one_that_lives_is_declared_dead_only_by_force(app: Outlast, database: Path) -> None:
    app.enqueue("work", id="t")
    with Holder(database, "lives") as living:
        living.claims(lease="1h")
        (found,) = app.workers()
        with pytest.raises(InvalidInput, match="is alive: its lock is held; only by force"):
            app.mark_dead(found.incarnation)
        assert (app.get("t").status, app.workers()[0].state) == ("running", "alive")
        dead = app.mark_dead(found.incarnation, force=True)
        assert dead is not None
        assert dead.because.endswith("declared dead by user")
        assert app.get("t").status == "pending"
        assert living.asks("complete", "t") == "LeaseLost"
        assert living.claims(lease="1h") == ["t"]
        assert living.asks("complete", "t") is True


def test_a_process_may_declare_itself_dead_and_begins_anew(
    app: Outlast, clock: ManualClock
) -> None:
    app.enqueue("work", id="t")
    (lease,) = app.claim("w", lease="1h")
    (own,) = app.workers()
    assert app.mark_dead(own.incarnation, force=True) is not None
    with pytest.raises(LeaseLost):
        lease.complete()
    (again,) = app.claim("w")
    assert again.complete()
    assert [one.state for one in app.workers()] == ["alive", "dead"]


@pytest.mark.parametrize("sign", ["heartbeat", "renew"])
def test_a_beat_that_comes_before_the_word_is_written_wins(
    app: Outlast, clock: ManualClock, database: Path, monkeypatch: pytest.MonkeyPatch, sign: str
) -> None:
    app.enqueue("work", id="t")
    with Holder(database) as holder:
        holder.claims(lease="1h")
        clock.advance("91s")
        holder.asks("advance", "91s")
        (stale,) = app.stale_workers()
        put_back = store_of(app).recovery._batch

        def beats_first(*arguments: Any) -> Any:
            holder.asks(sign, *(["t"] if sign == "renew" else []))
            return put_back(*arguments)

        monkeypatch.setattr(store_of(app).recovery, "_batch", beats_first)
        assert app.mark_dead(stale.incarnation) is None
        assert (app.get("t").status, events(database)) == ("running", [])
        assert holder.asks("complete", "t") is True


@pytest.mark.parametrize("wrong", [{"incarnation": ""}, {"incarnation": "x", "by": ""}])
def test_a_wrong_word_is_refused(make_app: Callable[..., Outlast], wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        make_app().mark_dead(**wrong)


def test_nobody_is_declared_dead_by_a_name(app: Outlast) -> None:
    """A name may be shared by many; it never decides."""
    app.heartbeat("w")
    assert app.mark_dead("w", force=True) is None
    assert app.is_alive("w")
