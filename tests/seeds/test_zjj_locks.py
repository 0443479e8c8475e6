"""zjj's processing lock, function by function, and what its contract promises of it.

An agent is a holder, the lock is the one that is meant when none is named. Where the seed took an
agent's name for proof of ownership we ask for the token of the grant: a name may be shared, or come
back after a restart.
"""

import json
import logging
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from outlast import DatabaseError, LeaseLost, LockHeld, LockLost, Outlast, Settings, StoreError
from outlast.testing import ManualClock
from tests.cli.shell import piped
from tests.crash.workers.working import until
from tests.seeds.crashing import crash, facts
from tests.store.hand import Hand
from tests.support.children import Child
from tests.support.forge import Forge
from tests.support.recovery_validator import validated

TIMEOUT_SECONDS = 300
AGENTS = 4
ENTRIES = 8

THE_LOCK = "SELECT id, agent_id, acquired_at, expires_at FROM queue_processing_lock"
THE_ENTRY = "SELECT status, agent_id, started_at, state_changed_at FROM merge_queue"


# Existing infrastructure: acquire, release, get, extend


@pytest.mark.proves("LCK-01", "LCK-07", "LCK-09")
def test_acquire_processing_lock(app: Outlast, clock: ManualClock, hand: Hand) -> None:
    """EX-1, EX-2, PRE-1, INV-1: one row with id 1 for 300 s; not to be stolen, then anyone's.

    The seed did not say who has it at the very moment of its end: nobody, and so anyone may. One
    that works on after that had a rival there; here it can be told.
    """
    first, second = app.lock(holder="agent-1"), app.lock(holder="agent-2")
    now_secs = clock.now().utc_ms // 1000
    assert first.acquire()
    assert hand.rows(THE_LOCK) == [(1, "agent-1", now_secs, now_secs + TIMEOUT_SECONDS)]
    clock.advance(TIMEOUT_SECONDS - 0.001)
    assert not second.acquire()
    clock.advance(0.001)
    assert second.acquire()
    assert [agent for _, agent, *_ in hand.rows(THE_LOCK)] == ["agent-2"]
    with pytest.raises(LockLost):
        first.check()
    assert not first.acquire()


@pytest.mark.proves("LCK-14")
def test_acquire_processing_lock_again_by_its_holder(app: Outlast, clock: ManualClock) -> None:
    """EX-2: it is renewed, and one release is enough."""
    lock = app.lock(holder="agent-1")
    assert lock.acquire()
    clock.advance("200s")
    assert lock.acquire()
    clock.advance("200s")
    lock.check()
    assert lock.release()
    assert app.current_lock() is None


@pytest.mark.proves("LCK-03", "LCK-04", "LCK-13")
def test_release_processing_lock(app: Outlast, clock: ManualClock) -> None:
    """EX-3, PRE-2, INV-4.3: by its owner, once. The seed let any agent of that name release it."""
    earlier, owner, stranger = (app.lock(holder=name) for name in ("agent-1", "agent-1", "agent-2"))
    assert earlier.acquire()
    clock.advance(TIMEOUT_SECONDS)
    assert owner.acquire()
    assert [earlier.release(), stranger.release()] == [False, False]
    owner.check()
    assert [owner.release(), owner.release()] == [True, False]
    assert app.current_lock() is None


@pytest.mark.proves("LCK-05")
def test_get_processing_lock(app: Outlast, clock: ManualClock) -> None:
    """EX-4, PRE-2.3."""
    assert app.open().current_lock() is None
    lock = app.lock(holder="agent-1")
    lock.acquire()
    found = app.current_lock()
    assert found is not None
    assert (found.holder, found.token) == ("agent-1", lock.token)
    assert (found.expires_at - found.acquired_at).total_seconds() == TIMEOUT_SECONDS
    clock.advance(TIMEOUT_SECONDS)
    assert app.current_lock() is None


@pytest.mark.proves("LCK-06")
def test_extend_lock(app: Outlast, clock: ManualClock) -> None:
    """EX-5, UNCH-4: by its owner, while it holds it, and never to an earlier end."""
    owner, stranger = app.lock(holder="agent-1"), app.lock(holder="agent-1")
    assert owner.acquire()
    assert [owner.extend(10), owner.extend(500), stranger.extend(900)] == [True, True, False]
    clock.advance(499.999)
    owner.check()
    clock.advance(0.001)
    assert owner.extend(500) is False


def test_extend_lock_keeps_the_entry_too(app: Outlast, clock: ManualClock) -> None:
    """The seed moved the end of the lock alone: after 300 s the entry went to another agent, while
    its worker held a valid lock. Ours goes by the lease, and one renewal is for both.
    """
    app.enqueue_many("merge", range(2))
    lease = app.next_with_lock("agent-1")
    assert lease is not None
    for _ in range(20):
        clock.advance("1m")
        lease.renew()
        assert app.recovery_stats().entries_reclaimed == 0
        with pytest.raises(LockHeld):
            app.next_with_lock("agent-2")
    assert lease.complete()
    assert app.current_lock() is None


# New functions


@pytest.mark.slow
@pytest.mark.proves("LCK-10", "OBS-16")
def test_is_lock_stale(database: Path) -> None:
    """FN-3, NEW-3: no lock is not stale, nor is one in use; the commands say the same by code."""

    def health() -> list[object]:
        check = piped(database.parent, "lock", "check", "--json", "--store", database)
        told = json.loads(piped(database.parent, "health", "--json", "--store", database).stdout)
        (locks,) = [one["status"] for one in told["concerns"] if one["name"] == "locks"]
        return [json.loads(check.stdout)["stale"], check.returncode, locks]

    with Outlast(database, settings=Settings(detection_interval_seconds=0)) as app:
        assert [app.is_lock_stale(), *health()] == [False, False, 0, "ok"]
        lock = app.lock(holder="agent-1")
        assert lock.acquire()
        assert not app.is_lock_stale()
        assert lock.release()
        assert app.lock(ttl=0.001, holder="agent-1").acquire()
        until(app.is_lock_stale, "it does not end")
        assert health() == [True, 1, "degraded"]
        app.heal()
        assert not app.is_lock_stale()


@pytest.mark.proves("HEAL-07", "HEAL-09", "HEAL-10", "LCK-12")
def test_next_with_lock(
    app: Outlast, clock: ManualClock, hand: Hand, caplog: pytest.LogCaptureFixture
) -> None:
    """FN-4, POST-1, POST-2, KBC-1: lock and claim of agent-1 are stale; agent-2 asks for work.

    Nobody calls anything else: the lock is freed and the entry is put back, each with a warning,
    and agent-2 has both.
    """
    app.enqueue("merge", id="e", group="bd-2i5", priority=7)
    late = app.next_with_lock("agent-1")
    assert late is not None
    clock.advance(TIMEOUT_SECONDS)
    assert app.recovery_stats().locks_cleaned == 1
    lease = app.next_with_lock("agent-2")
    assert lease is not None
    assert (lease.task_id, lease.attempt) == ("e", 2)
    now_secs = clock.now().utc_ms // 1000
    assert hand.rows(THE_ENTRY) == [("claimed", "agent-2", now_secs, now_secs)]
    assert hand.rows(THE_LOCK) == [(1, "agent-2", now_secs, now_secs + TIMEOUT_SECONDS)]
    warned = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert [one for one in warned if one.startswith("task e of worker agent-1, 300.0 s after ")]
    assert "lock default of worker agent-1 ran out 0.0 s ago" in warned
    with pytest.raises(LeaseLost):
        late.complete()
    assert lease.complete()
    assert hand.rows(THE_LOCK) == [], "PRE-4.2: given back on completion"


@pytest.mark.proves("HEAL-12", "OBS-20")
def test_next_with_lock_when_healing_fails(
    app: Outlast,
    clock: ManualClock,
    hand: Hand,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """POST-7: it is logged, and the claim goes on. The seed printed it to stderr."""
    app.enqueue_many("merge", range(2), id=["stale", "pending"])
    app.claim("agent-1")
    clock.advance(TIMEOUT_SECONDS)
    hand.run("DROP VIEW task_situations")
    lease = app.next_with_lock("agent-2")
    assert lease is not None
    assert lease.task_id == "pending"
    assert len([one for one in caplog.messages if "healing before a claim failed" in one]) == 1
    assert capfd.readouterr() == ("", "")


@pytest.mark.proves("LCK-15")
def test_contention_is_a_locked_condition_and_no_database_error(app: Outlast) -> None:
    """ERR-3: the seed's SessionLocked. Nothing was claimed by the one who was refused."""
    app.enqueue_many("merge", range(2), id=["a", "b"])
    assert app.next_with_lock("agent-1") is not None
    with pytest.raises(LockHeld) as caught:
        app.next_with_lock("agent-2")
    assert not isinstance(caught.value, DatabaseError | StoreError)
    assert (caught.value.name, caught.value.holder) == ("default", "agent-1")
    assert (app.get("b").status, app.get("b").attempt) == ("pending", 0)


@pytest.mark.slow
@pytest.mark.proves("HEAL-14", "HEAL-15", "CLI-09")
def test_detect_and_recover_stale_and_get_recovery_stats_by_command(database: Path) -> None:
    """FN-1, FN-2, NEW-4: for maintenance jobs; counting first changes nothing.

    The lock that was taken with the entry is counted as any other.
    """
    with Child(_dies_with_an_entry_and_two_locks, database) as agent:
        assert agent.hear() == "e"
        agent.kill()
    told = []
    with validated(database):
        for words in (["--dry-run"], [], ["--dry-run"]):
            done = piped(database.parent, "queue", "heal", *words, "--json", "--store", database)
            stats = json.loads(done.stdout)
            told.append([stats["is_dry_run"], stats["locks_cleaned"], stats["entries_reclaimed"]])
    assert told == [[True, 2, 1], [False, 2, 1], [True, 0, 0]]
    freed = "SELECT worker_id, data ->> '$.lock' FROM events WHERE kind = 'lock.freed' ORDER BY 2"
    assert facts(database, freed) == [["agent-1", "default"], ["agent-1", "deploy"]]


def _dies_with_an_entry_and_two_locks(path: str) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path)
    app.enqueue("merge", id="e")
    lease = app.next_with_lock("agent-1", lease="1h")
    app.lock("deploy", ttl="1h", holder="agent-1").acquire()
    say(lease and lease.task_id)
    hear()


# Observability


@pytest.mark.proves("OBS-09")
def test_post_5_3_lim_5_healing_leaves_audit_entries(app: Outlast, clock: ManualClock) -> None:
    """One for each lock and each entry, with who had it: the seed emptied that without a trace."""
    app.enqueue("merge", id="e")
    app.next_with_lock("agent-1")
    app.lock("deploy", holder="agent-1").acquire()
    clock.advance(TIMEOUT_SECONDS)
    told, done = app.recovery_stats(), app.heal()
    assert (done.locks_cleaned, done.entries_reclaimed) == (2, 1)
    assert replace(done, is_dry_run=True) == told
    (passed,) = app.audit()
    assert (passed.source, passed.status) == ("self_healing", "succeeded")
    items = [(one.action, one.subject, one.data["worker"]) for one in app.audit(items=True)]
    assert sorted(items) == [
        ("lease_expired_retry", "e", "agent-1"),
        ("lock.expired", "default", "agent-1"),
        ("lock.expired", "deploy", "agent-1"),
    ]


# Concurrent safety, mutual exclusion


@pytest.fixture(scope="module")
def forge() -> Iterator[Forge]:
    with Forge("tests.seeds.crashing") as made:
        yield made


@pytest.mark.proves("LCK-08", "LCK-12")
def test_post_6_inv_3_many_agents_find_the_same_dead_one_and_work_one_at_a_time(
    database: Path, forge: Forge
) -> None:
    """FS-1, FS-2: all ask at once; one has the orphan and the lock, and then they take turns."""
    with Outlast(database) as app:
        app.enqueue_many("merge", range(ENTRIES))
    agents = forge.fork("works_under_the_lock", database, count=AGENTS)
    assert [one.hear() for one in agents] == ["open"] * AGENTS
    (orphan,) = crash(database, "agent-0", limit=1, lock="default")
    for one in agents:
        os.kill(one.pid, signal.SIGUSR1)
    answers = [one.hear() for one in agents]
    (won,) = [one for one in answers if one != "locked"]
    assert won == [orphan, 2]
    for one in agents:
        os.kill(one.pid, signal.SIGUSR1)
    assert sum(one.hear() for one in agents) == ENTRIES
    assert [one.ended() for one in agents] == [0] * AGENTS
    moves = "SELECT to_status FROM transitions ORDER BY pos"
    turns = [status for (status,) in facts(database, moves)]
    assert turns == ["running", "pending"] + ["running", "completed"] * ENTRIES


def _holds_its_lock(path: str) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    lock = Outlast(path).lock(ttl=0.2, holder="agent-1")
    say([lock.acquire(), lock.token])
    while hear():
        say([lock.extend(300), lock.release()])


@pytest.mark.proves("LCK-13")
def test_inv_1_3_an_agent_that_comes_back_cannot_touch_its_namesakes_lock(database: Path) -> None:
    """FS-3: cut off for longer than its lock lasts, its name was given to another process. The
    seed's statements named the agent alone, and would have freed or extended the other's lock.
    """
    with Outlast(database) as app, Child(_holds_its_lock, database) as cut_off:
        was_taken, token = cut_off.hear()
        assert was_taken
        cut_off.signal(signal.SIGSTOP)
        successor = app.lock(ttl="1h", wait=60, holder="agent-1")
        assert successor.acquire()
        cut_off.signal(signal.SIGCONT)
        cut_off.say("go on")
        assert cut_off.hear() == [False, False]
        assert successor.token is not None
        assert successor.token > token, "what it protects can tell the two apart"
        successor.check()


# Not affected


@pytest.mark.proves("LCK-17")
def test_sc_n1_session_locks_are_another_system(
    app: Outlast, clock: ManualClock, hand: Hand
) -> None:
    """An expired row of the program's own lock table stays, whatever is healed."""
    app.open()
    hand.run("CREATE TABLE session_locks (session TEXT, agent_id TEXT, expires_at INTEGER)")
    hand.run("INSERT INTO session_locks VALUES ('default', 'agent-1', 1)")
    app.lock(holder="agent-1").acquire()
    clock.advance(TIMEOUT_SECONDS)
    assert app.heal().locks_cleaned == 1
    assert app.next_with_lock("agent-2") is None
    assert hand.rows("SELECT * FROM session_locks") == [("default", "agent-1", 1)]
