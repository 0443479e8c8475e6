"""A signal's exception at any moment: nothing stays open, nothing stays locked, nothing is lost."""

import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast import LeaseLost, OutcomeUnknown, Outlast, Settings
from tests.support.children import Child
from tests.support.foreign import assert_sound, foreign_statuses

# What is done, how often, and how long a signal may let it go on at most.
ROUNDS = {"enqueue": (1500, 0.0008), "claim": (700, 0.004), "read": (4000, 0.0002)}


class Interrupted(Exception):
    """What the signal's handler raises."""


def _interrupt(number: int, frame: object) -> None:
    raise Interrupted


def strike_at_random(act: Callable[[int], None], rounds: int, longest_seconds: float) -> int:
    """Do it again and again, each time under a timer; how often the signal came in between."""
    chance = random.Random(7)
    signal.signal(signal.SIGALRM, _interrupt)
    struck = 0
    for n in range(rounds):
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.00001, longest_seconds))
                act(n)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except Interrupted:
            struck += 1
        except (OutcomeUnknown, LeaseLost):
            continue
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    return struck


def actions_on(app: Outlast, acknowledged: list[str]) -> dict[str, Callable[[int], None]]:
    """What is interrupted; ids are noted once the store has acknowledged them."""

    def enqueue(n: int) -> None:
        acknowledged.append(app.enqueue("work", n, id=f"t{n}").id)

    def claim(n: int) -> None:
        for lease in app.claim("w"):
            lease.complete()
            acknowledged.append(lease.task_id)

    def read(n: int) -> None:
        app.counts()

    return {"enqueue": enqueue, "claim": claim, "read": read}


def _is_interrupted_again_and_again(path: str, verb: str) -> None:
    import threading

    from outlast import Outlast
    from tests.crash.forks.test_signals import ROUNDS, actions_on, strike_at_random
    from tests.support.childside import hear, say

    rounds, longest_seconds = ROUNDS[verb]
    app = Outlast(path).open()
    if verb == "claim":
        app.enqueue_many("work", range(rounds), id=[f"t{n}" for n in range(rounds)])
    acknowledged: list[str] = []
    struck = strike_at_random(actions_on(app, acknowledged)[verb], rounds, longest_seconds)
    say([struck, acknowledged])
    hear()
    reading = threading.Thread(target=lambda: say(app.counts()["failed"]), daemon=True)
    reading.start()
    reading.join(60)
    closing = threading.Thread(target=app.close, daemon=True)
    closing.start()
    closing.join(60)
    say(not closing.is_alive())


@pytest.mark.parametrize("verb", ROUNDS)
def test_an_interrupted_process_blocks_nobody_and_loses_nothing(database: Path, verb: str) -> None:
    with Child(_is_interrupted_again_and_again, database, verb) as child:
        struck, acknowledged = child.hear()
        assert struck > ROUNDS[verb][0] / 50, "the signals must have met the operations"
        with Outlast(database, settings=Settings(write_timeout_seconds=5)) as other:
            other.enqueue("work", id="of another process")
        child.say()
        assert child.hear() == 0, "another thread can read"
        assert child.hear() is True, "close() must return"
        assert child.wait() == 0, child.error()
    statuses = foreign_statuses(database)
    assert set(acknowledged) <= set(statuses)
    assert "running" not in statuses.values(), "what was in hand was given back"
    if verb == "claim":
        assert {statuses[task_id] for task_id in acknowledged} <= {"completed"}
    assert_sound(database)
