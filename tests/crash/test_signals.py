"""A signal's exception at any moment: nothing stays open, nothing stays locked, nothing is lost."""

from pathlib import Path

import pytest

from outlast import Outlast, Settings
from outlast.testing import ManualClock
from tests.support.children import Child
from tests.support.foreign import assert_sound, foreign_statuses


def _is_interrupted_again_and_again(path: str, verb: str, rounds: int) -> None:
    import random
    import signal
    import threading

    from outlast import LeaseLost, OutcomeUnknown, Outlast
    from tests.support.childside import hear, say

    class Interrupted(Exception):
        pass

    def interrupt(number: int, frame: object) -> None:
        raise Interrupted

    chance = random.Random(7)
    app = Outlast(path).open()
    acknowledged: list[str] = []

    def enqueue(n: int) -> None:
        task = app.enqueue("work", n, id=f"t{n}")
        acknowledged.append(task.id)

    def claim(n: int) -> None:
        for lease in app.claim("w"):
            task_id = lease.task_id
            lease.complete()
            acknowledged.append(task_id)

    def read(n: int) -> None:
        app.counts()

    act = {"enqueue": enqueue, "claim": claim, "read": read}[verb]
    if verb == "claim":
        app.enqueue_many("work", range(rounds), id=[f"t{n}" for n in range(rounds)])
    signal.signal(signal.SIGALRM, interrupt)
    struck = 0
    longest = {"enqueue": 0.0006, "claim": 0.0015, "read": 0.0002}[verb]
    for n in range(rounds):
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.00001, longest))
                act(n)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except Interrupted:
            struck += 1
        except (OutcomeUnknown, LeaseLost):
            pass
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    say([struck, acknowledged])
    hear()
    say(len(app.claim("after", limit=10_000)))
    closing = threading.Thread(target=app.close, daemon=True)
    closing.start()
    closing.join(10)
    say(not closing.is_alive())


@pytest.mark.parametrize(("verb", "rounds"), [("enqueue", 1500), ("claim", 700), ("read", 4000)])
def test_an_interrupted_process_blocks_nobody_and_loses_nothing(
    database: Path, clock: ManualClock, verb: str, rounds: int
) -> None:
    with Child(_is_interrupted_again_and_again, database, verb, rounds) as child:
        struck, acknowledged = child.hear()
        assert struck > rounds / 20, "the signals must have met the operations"
        with Outlast(database, settings=Settings(write_timeout_seconds=5)) as other:
            other.enqueue("work", id="of another process")
        child.say()
        left = child.hear()
        assert child.hear() is True, "close() must return"
        assert child.wait() == 0, child.error()
    statuses = foreign_statuses(database)
    assert set(acknowledged) <= set(statuses)
    assert "running" not in statuses.values(), "what was in hand was given back"
    if verb == "claim":
        assert {statuses[task_id] for task_id in acknowledged} == {"completed"}
        assert left + list(statuses.values()).count("completed") <= len(statuses)
    assert_sound(database)
