"""Locks between real processes: races, deaths, zombies, waiting."""

import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from outlast import LockState, Outlast, Settings
from outlast.testing import ManualClock
from tests.locks.telling import Told
from tests.support.children import Child
from tests.support.foreign import assert_sound

RACERS = 16
ROUNDS = 6
LONG_SECONDS = 100.0

Events = Callable[[], list[Told]]
# A detector would free what a killed process held before the call that is to find it.
ALONE = Settings(detection_interval_seconds=0)


def _races(path: str, inside: str, counter: str, rounds: int) -> None:
    """First one try each; then turns, in each of which it is alone or says that it was not."""
    import os
    from pathlib import Path

    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path).open()
    say("ready")
    hear()
    lock = app.lock("race")
    say(lock.acquire())
    hear()
    lock.release()
    tokens, overlaps = [], 0
    for _ in range(rounds):
        with app.lock("turns", wait=100) as grant:
            try:
                os.close(os.open(inside, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                overlaps += 1
            tokens.append(grant.token)
            count = int(Path(counter).read_text())
            Path(counter).write_text(str(count + 1))
            os.unlink(inside)
    say([overlaps, tokens])
    app.close()


@pytest.mark.slow
@pytest.mark.proves("LCK-02", "LCK-08")
def test_of_sixteen_racers_one_gets_the_lock_and_their_turns_never_overlap(
    database: Path, tmp_path: Path
) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    with ExitStack() as stack:
        racers = [
            stack.enter_context(Child(_races, database, tmp_path / "inside", counter, ROUNDS))
            for _ in range(RACERS)
        ]
        assert [racer.hear() for racer in racers] == ["ready"] * RACERS
        for racer in racers:
            racer.say("race")
        won = [racer.hear() for racer in racers]
        assert sorted(won) == [False] * (RACERS - 1) + [True]
        for racer in racers:
            racer.say("turns")
        told = [racer.hear() for racer in racers]
    assert [overlaps for overlaps, _ in told] == [0] * RACERS
    assert counter.read_text() == str(RACERS * ROUNDS)
    tokens = [token for _, tokens in told for token in tokens]
    assert len(set(tokens)) == RACERS * ROUNDS
    assert all(tokens == sorted(tokens) for _, tokens in told)
    assert_sound(database)


def _holds(path: str, name: str, holder: str, ttl: float) -> None:
    """Takes a lock by hand, says its token, and does as it is told."""
    from outlast import LockLost, Outlast
    from tests.support.childside import hear, say

    app = Outlast(path)
    lock = app.lock(name, ttl=ttl, holder=holder)
    say([lock.acquire(), lock.token])
    while (order := hear()) is not None:
        if order == "check":
            try:
                lock.check()
            except LockLost:
                say("lost")
            else:
                say("held")
        elif order == "acquire":
            say(lock.acquire())
        elif order == "release":
            say(lock.release())
        elif order == "extend":
            say(lock.extend(1000))
        else:
            app.close()
            say("closed")


@pytest.mark.proves("LCK-16")
@pytest.mark.parametrize("how", ["acquire", "heal", "claim"])
def test_the_lock_of_a_killed_process_is_free_as_soon_as_somebody_looks(
    database: Path, events: Events, how: str
) -> None:
    """It would last for a day."""
    with (
        Outlast(database, settings=ALONE) as app,
        Child(_holds, database, "x", "victim", 86_400) as child,
    ):
        assert child.hear()[0]
        assert not app.lock("x").acquire()
        child.kill()
        found = app.current_lock("x")
        assert found is not None
        assert found.state is LockState.ORPHANED
        assert not app.is_lock_stale("x")
        if how == "acquire":
            assert app.lock("x").acquire()
        elif how == "heal":
            assert app.recovery_stats().locks_cleaned == 1
            assert app.heal().locks_cleaned == 1
        else:
            assert app.claim("w") == []
        if how != "acquire":
            assert app.current_lock("x") is None
        assert events() == [("lock.freed", "x", "victim")]
        assert app.recovery_stats().locks_cleaned == 0


@pytest.mark.proves("LCK-16")
def test_the_next_opening_frees_what_a_killed_process_held(database: Path, events: Events) -> None:
    with Child(_holds, database, "x", "victim", 86_400) as child:
        child.hear()
        child.kill()
    with Outlast(database) as app:
        assert app.current_lock("x") is None
    assert events() == [("lock.freed", "x", "victim")]


def test_a_holder_whose_worker_had_retired_is_found_dead_all_the_same(
    database: Path, events: Events
) -> None:
    """Its row is off the list of living workers, and so no funeral would come across its lock."""
    with (
        Outlast(database, settings=ALONE) as app,
        Child(_holds, database, "x", "victim", 86_400) as child,
    ):
        child.hear()
        from tests.store.hand import Hand

        hand = Hand(database)
        hand.run("UPDATE workers SET state = 'left', ended_at = 1 WHERE name = 'victim'")
        hand.close()
        assert app.heal().locks_cleaned == 0
        child.kill()
        assert app.heal().locks_cleaned == 1
        assert events() == [("lock.freed", "x", "victim")]


def test_the_lock_of_a_stopped_process_is_not_taken_before_its_time(database: Path) -> None:
    with Outlast(database) as app, Child(_holds, database, "x", "sleeper", 86_400) as child:
        child.hear()
        child.signal(signal.SIGSTOP)
        assert not app.lock("x").acquire()
        assert app.heal().locks_cleaned == 0
        child.signal(signal.SIGCONT)
        child.say("check")
        assert child.hear() == "held"


@pytest.mark.proves("LCK-13")
def test_a_zombie_of_the_same_name_frees_and_extends_nothing_of_its_successor(
    database: Path,
) -> None:
    """Stopped for longer than its lock lasts, it comes back and believes itself the holder."""
    with Outlast(database) as app, Child(_holds, database, "x", "agent", 0.2) as zombie:
        assert zombie.hear()[0]
        zombie.signal(signal.SIGSTOP)
        successor = app.lock("x", ttl=86_400, wait=LONG_SECONDS, holder="agent")
        assert successor.acquire()
        zombie.signal(signal.SIGCONT)
        answers = []
        for order in ("check", "extend", "release", "acquire"):
            zombie.say(order)
            answers.append(zombie.hear())
        assert answers == ["lost", False, False, False]
        successor.check()
        assert successor.release()


@pytest.mark.proves("LCK-13")
def test_a_restarted_agent_has_a_new_token_and_its_predecessors_is_worth_nothing(
    database: Path,
) -> None:
    with Outlast(database) as app:
        with Child(_holds, database, "x", "agent", 86_400) as first:
            _, old = first.hear()
            first.kill()
        with Child(_holds, database, "x", "agent", 86_400) as again:
            was_taken, new = again.hear()
            assert was_taken
            assert new > old
            found = app.current_lock("x")
            assert found is not None
            assert found.token == new
            again.say("close")
            assert again.hear() == "closed"
        assert app.locks() == []


def _waits(path: str) -> None:
    """Says when it is about to sleep, and what it got in the end."""
    from outlast import Outlast, Settings
    from outlast.store.sqlite.wakeups.listener import SocketListener
    from tests.support.childside import hear, say

    app = Outlast(path, settings=Settings(heal_interval_seconds=0.2))
    wait = SocketListener.wait
    said: list[str] = []

    def noticed(waiter: SocketListener, timeout_seconds: float) -> bool:
        if not said:
            said.append("asleep")
            say("asleep")
        return wait(waiter, timeout_seconds)

    SocketListener.wait = noticed  # type: ignore[method-assign, assignment]
    say(app.lock("x", wait=100).acquire())
    hear()


@pytest.mark.parametrize("ending", ["release", "close", "kill", "force"])
def test_who_waits_for_a_lock_gets_it_however_it_becomes_free(database: Path, ending: str) -> None:
    with ExitStack() as stack:
        app = stack.enter_context(Outlast(database))
        holder = stack.enter_context(Child(_holds, database, "x", "holder", 86_400))
        assert holder.hear()[0]
        waiter = stack.enter_context(Child(_waits, database))
        assert waiter.hear() == "asleep"
        if ending == "kill":
            holder.kill()
        elif ending == "force":
            assert app.release_lock("x", by="ada")
        else:
            holder.say(ending)
        assert waiter.hear() is True


def test_who_waits_gets_the_lock_when_its_time_has_passed(database: Path) -> None:
    with Outlast(database, settings=Settings(heal_interval_seconds=100)) as app:
        assert app.lock(ttl=0.3).acquire()
        assert app.lock(wait=LONG_SECONDS).acquire()


def test_waiting_ends_when_the_time_given_is_up(database: Path) -> None:
    with Outlast(database) as app:
        app.lock().acquire()
        began = time.monotonic()
        assert app.lock(wait=0.2).acquire() is False
        assert time.monotonic() - began >= 0.2


def test_who_waits_writes_nothing_while_the_lock_is_held(
    app: Outlast, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each commit of anybody is a reason to look, and none to stand in the writers' way."""
    from outlast.store.ops.locks.locks import Locks

    holder = app.lock()
    holder.acquire()
    asked: list[int] = []
    acquire = Locks.acquire

    def counted(*args: object, **kwargs: object) -> object:
        asked.append(1)
        return acquire(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Locks, "acquire", counted)
    answers: list[bool] = []
    waiter = threading.Thread(target=lambda: answers.append(app.lock(wait=LONG_SECONDS).acquire()))
    waiter.start()
    deadline = time.monotonic() + LONG_SECONDS
    while not asked:
        assert time.monotonic() < deadline
    for number in range(30):
        app.enqueue("work", id=f"t{number}")
    assert len(asked) == 1
    holder.release()
    waiter.join()
    assert answers == [True]
    assert len(asked) <= 3
