"""A worker that was stopped, replaced, and comes back: its writes change nothing."""

import signal
from pathlib import Path

import pytest

from outlast import Outlast
from outlast.testing import ManualClock
from tests.support.children import Child
from tests.support.foreign import assert_sound, foreign_rows
from tests.support.snapshots import foreign_snapshot

VERBS = {
    "complete": ["the zombie's result"],
    "fail": ["the zombie's error"],
    "release": [],
    "renew": [],
    "checkpoint": ["tool_executed", {"by": "the zombie"}],
}


def _comes_back_from_the_dead(path: str, verb: str, arguments: list[object]) -> None:
    from outlast import LeaseLost, Outlast, Settings
    from outlast.testing import ManualClock
    from tests.support.childside import hear, say

    # A detector would put on record, sooner or later, that a write was fenced.
    quiet = Settings(detection_interval_seconds=0)
    (lease,) = Outlast(path, settings=quiet, clock=ManualClock()).claim("a", lease="10s")
    say(lease.token)
    hear()
    try:
        say(["accepted", getattr(lease, verb)(*arguments)])
    except LeaseLost as error:
        say(["LeaseLost", error.task_ids])
    hear()


@pytest.mark.proves("CLM-04")
@pytest.mark.parametrize("settled_first", [True, False])
@pytest.mark.parametrize("verb", VERBS)
def test_a_worker_that_was_stopped_past_its_lease_cannot_write(
    database: Path, app: Outlast, clock: ManualClock, verb: str, settled_first: bool
) -> None:
    """A is stopped, B claims its task; whenever A wakes, B's work is what counts."""
    app.enqueue("work", id="t")
    with Child(_comes_back_from_the_dead, database, verb, VERBS[verb]) as zombie:
        first_token = zombie.hear()
        zombie.signal(signal.SIGSTOP)
        clock.advance("1m")
        (lease,) = app.claim("b")
        assert (lease.task_id, lease.attempt) == ("t", 2)
        assert lease.token > first_token
        if settled_first:
            assert lease.complete("b's result")
        before = foreign_snapshot(database)
        zombie.signal(signal.SIGCONT)
        zombie.say("write now")
        assert zombie.hear() == ["LeaseLost", ["t"]]
        assert foreign_snapshot(database).state == before.state, "not one row was changed"
    if not settled_first:
        assert lease.complete("b's result")
    assert foreign_rows(database, "SELECT status, result FROM tasks") == [
        ["completed", '"b\'s result"']
    ]
    assert_sound(database)
