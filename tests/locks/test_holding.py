"""A lock in one pair of hands: taken, renewed, extended, given back, and free again."""

from collections.abc import Callable
from pathlib import Path

import pytest

from outlast import DatabaseError, InvalidInput, LockHeld, LockState, Outlast, Settings, StoreError
from outlast.testing import ManualClock
from tests.locks.telling import Told
from tests.store.hand import Hand

Events = Callable[[], list[Told]]


@pytest.mark.proves("LCK-01")
def test_the_default_lock_works_without_naming_it(app: Outlast, hand: Hand) -> None:
    """The seed's single row: id 1 of its view, under its words, in seconds."""
    app.lock("another", holder="agent-2").acquire()
    lock = app.lock(holder="agent-1")
    assert lock.acquire()
    assert lock.name == "default"
    now_secs = 1_800_000_000
    assert hand.records("SELECT * FROM queue_processing_lock WHERE id = 1") == [
        {
            "id": 1, "agent_id": "agent-1", "name": "default",
            "acquired_at": now_secs, "expires_at": now_secs + 300,
        }
    ]  # fmt: skip
    assert not app.lock("default").acquire()
    assert lock.release()
    assert hand.rows("SELECT id, name FROM queue_processing_lock") == [(2, "another")]
    assert app.lock("and one more").acquire()
    ids = hand.rows("SELECT id, name FROM queue_processing_lock ORDER BY id")
    assert ids == [(2, "and one more"), (3, "another")]


@pytest.mark.proves("LCK-03", "LCK-04")
def test_only_the_owner_gives_a_lock_back_and_only_once(app: Outlast) -> None:
    owner, stranger = app.lock(), app.lock()
    assert owner.acquire()
    assert not stranger.release()
    assert app.current_lock() is not None
    assert owner.release() is True
    assert app.current_lock() is None
    assert owner.release() is False
    assert stranger.acquire()
    assert owner.release() is False
    assert app.current_lock() is not None


@pytest.mark.proves("LCK-05")
def test_the_current_lock_can_be_read_and_is_none_when_it_is_free(
    app: Outlast, clock: ManualClock, database: Path
) -> None:
    app.open()
    assert app.current_lock() is None
    lock = app.lock("x", ttl="1m", holder="agent")
    lock.acquire()
    with Outlast(database, clock=clock) as reader:
        found = reader.current_lock("x")
        assert found is not None
        assert (found.name, found.holder, found.token) == ("x", "agent", lock.token)
        assert (found.expires_at - found.acquired_at).total_seconds() == 60
        assert found.state is LockState.HELD
        assert reader.locks() == [found]
        assert reader.current_lock("y") is None
        lock.release()
        assert reader.current_lock("x") is None
        assert reader.locks() == []


@pytest.mark.proves("LCK-06")
def test_extending_is_for_the_owner_while_it_holds_and_never_brings_the_end_nearer(
    app: Outlast, clock: ManualClock
) -> None:
    lock, stranger = app.lock(ttl=100), app.lock()
    assert lock.extend(50) is False
    lock.acquire()
    first = lock.expires_at
    assert lock.extend(50) is True
    assert lock.expires_at == first
    assert _left(app) == 100
    assert lock.extend(150) is True
    assert _left(app) == 150
    assert stranger.extend(1000) is False
    assert _left(app) == 150
    clock.advance(149.999)
    assert lock.extend(1) is True
    clock.advance(1)
    assert lock.extend(1000) is False
    assert app.is_lock_stale()


def _left(app: Outlast) -> float:
    found = app.current_lock()
    assert found is not None
    return found.left_ms / 1000


@pytest.mark.proves("LCK-07")
def test_a_lock_is_held_until_exactly_its_end_and_free_for_anyone_from_then_on(
    app: Outlast, clock: ManualClock
) -> None:
    first, second = app.lock(ttl=10), app.lock(ttl=10)
    first.acquire()
    clock.advance(9.999)
    assert not second.acquire()
    first.check()
    assert app.current_lock() is not None
    clock.advance(0.001)
    assert app.current_lock() is None
    assert not first.release()
    assert not first.extend(10)
    assert second.acquire()
    clock.advance(9.999)
    assert second.release()


@pytest.mark.proves("LCK-09", "CFG-04")
def test_a_lock_lasts_300_seconds_or_as_the_setting_or_the_call_says(
    make_app: Callable[..., Outlast],
) -> None:
    assert Settings().lock_ttl_seconds == 300
    for app, ttl, lasts in (
        (make_app(), None, 300),
        (make_app(lock_ttl_seconds=7), None, 7),
        (make_app(), "90s", 90),
    ):
        lock = app.lock(ttl=ttl)
        assert lock.acquire()
        assert _left(app) == lasts
        lock.release()


@pytest.mark.proves("LCK-10", "OBS-16")
def test_a_lock_is_stale_only_if_it_is_there_and_its_time_has_passed(
    app: Outlast, clock: ManualClock
) -> None:
    app.open()
    assert app.is_lock_stale() is False
    lock = app.lock(ttl=10)
    lock.acquire()
    clock.advance(9.999)
    assert app.is_lock_stale() is False
    clock.advance(0.001)
    assert app.is_lock_stale() is True
    (listed,) = app.locks()
    assert listed.state is LockState.STALE
    assert listed.is_stale
    assert app.is_lock_stale("another") is False
    app.heal()
    assert app.is_lock_stale() is False


@pytest.mark.proves("LCK-11", "HEAL-08")
@pytest.mark.parametrize("verb", ["acquire", "claim", "heal", "reclaim"])
def test_an_expired_lock_vanishes_with_the_next_acquire_or_claim_and_the_stream_says_so(
    app: Outlast, clock: ManualClock, hand: Hand, events: Events, verb: str
) -> None:
    app.lock("x", ttl=10, holder="gone").acquire()
    clock.advance(10)
    calls: dict[str, Callable[[], bool]] = {
        "acquire": lambda: app.lock("x", holder="next").acquire(),
        "claim": lambda: app.claim("w") == [],
        "heal": lambda: app.heal().locks_cleaned == 1,
        "reclaim": lambda: app.reclaim_stale(1) == 0,
    }
    assert calls[verb]()
    left = [("next",)] if verb == "acquire" else []
    assert hand.rows("SELECT worker_id FROM locks") == left
    assert events() == [("lock.expired", "x", "gone")]


@pytest.mark.proves("LCK-13")
def test_tokens_rise_with_every_grant_and_never_come_again(
    app: Outlast, clock: ManualClock
) -> None:
    tokens: list[int | None] = []
    for ending in ("release", "expiry", "force", "close", "release"):
        lock = app.lock(ttl=10)
        assert lock.acquire()
        tokens.append(lock.token)
        if ending == "release":
            lock.release()
        elif ending == "expiry":
            clock.advance(10)
            app.heal()
        elif ending == "force":
            app.release_lock("default", by="ada")
        else:
            app.close()
    assert tokens == sorted(set(tokens), key=lambda token: token or 0)
    assert len(tokens) == 5


@pytest.mark.proves("LCK-13")
def test_an_older_grant_of_the_same_name_in_the_same_process_frees_and_extends_nothing(
    app: Outlast, clock: ManualClock
) -> None:
    """Row, name and incarnation are the same; the token alone tells the two grants apart."""
    old, new = (app.lock(ttl=10, holder="agent") for _ in range(2))
    old.acquire()
    clock.advance(10)
    assert new.acquire()
    assert old.release() is False
    assert old.extend(10) is False
    new.check()
    assert _left(app) == 10


@pytest.mark.proves("LCK-14")
def test_asking_again_for_a_lock_one_has_renews_it_and_counts_nothing(
    app: Outlast, clock: ManualClock
) -> None:
    lock = app.lock(ttl=10)
    lock.acquire()
    token = lock.token
    clock.advance(6)
    assert lock.acquire() is True
    assert (lock.token, _left(app)) == (token, 10)
    assert lock.release() is True
    assert app.current_lock() is None
    lock.acquire()
    clock.advance(10)
    assert lock.acquire() is True
    assert lock.token != token


@pytest.mark.proves("LCK-15")
def test_contention_is_an_error_of_its_own_that_says_who_holds_the_lock_until_when(
    app: Outlast,
) -> None:
    with app.lock("x", ttl=60, holder="agent-1") as grant:
        with pytest.raises(LockHeld) as caught, app.lock("x"):
            pytest.fail("two hold the lock")
        error, until = caught.value, grant.expires_at
    assert (error.name, error.holder, error.until) == ("x", "agent-1", until)
    assert "held by agent-1 until 08:01:00 UTC" in str(error)
    assert not isinstance(error, StoreError | DatabaseError)


@pytest.mark.proves("LCK-17")
def test_lock_tables_of_others_in_the_same_file_are_not_touched(
    app: Outlast, clock: ManualClock, hand: Hand
) -> None:
    app.open()
    for table in ("session_locks", "processing_lock"):
        hand.run(f"CREATE TABLE {table} (name TEXT PRIMARY KEY, agent_id TEXT, expires_at INTEGER)")
        hand.run(f"INSERT INTO {table} VALUES ('x', 'gone', 1), ('y', 'there', 99999999999)")
    app.lock("x", ttl=1).acquire()
    clock.advance(10)
    assert app.heal().locks_cleaned == 1
    app.lock("y").acquire()
    app.release_lock("y", by="ada")
    app.claim("w")
    for table in ("session_locks", "processing_lock"):
        rows = hand.rows(f"SELECT * FROM {table}")
        assert rows == [("x", "gone", 1), ("y", "there", 99999999999)]


def test_locks_of_different_names_do_not_meet(app: Outlast) -> None:
    locks = [app.lock(name) for name in ("a", "A", "a ", "ä", "default")]
    assert [lock.acquire() for lock in locks] == [True] * 5
    assert {found.name for found in app.locks()} == {"a", "A", "a ", "ä", "default"}


@pytest.mark.parametrize("seconds", [3600, -3600])
def test_setting_the_clock_frees_nobody_and_binds_nobody_longer(
    app: Outlast, clock: ManualClock, seconds: float
) -> None:
    """While the machine sleeps the monotonic clock stands still: a suspend is such a step too."""
    lock, other = app.lock(ttl=10), app.lock(ttl=10)
    lock.acquire()
    clock.step_utc(seconds)
    assert not other.acquire()
    assert not app.is_lock_stale()
    assert app.heal().locks_cleaned == 0
    lock.check()
    clock.advance(10)
    assert other.acquire()


def test_a_lock_of_another_boot_is_judged_by_utc(
    app: Outlast, clock: ManualClock, hand: Hand
) -> None:
    app.lock("x", ttl=10).acquire()
    hand.run("UPDATE workers SET boot_id = 'another', incarnation = 'another', lock_file = 'none'")
    clock.step_utc(9.999)
    assert not app.is_lock_stale("x")
    clock.step_utc(0.001)
    assert app.is_lock_stale("x")
    assert app.lock("x").acquire()


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""}, {"name": "a\nb"}, {"name": 7}, {"ttl": 0}, {"ttl": -1}, {"ttl": "soon"},
        {"wait": -1}, {"holder": ""}, {"holder": "a\x1b[2J"},
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_before_anything_is_opened(
    app: Outlast, database: Path, wrong: dict[str, object]
) -> None:
    with pytest.raises(InvalidInput):
        app.lock(**wrong)  # type: ignore[arg-type]
    assert not database.exists()
