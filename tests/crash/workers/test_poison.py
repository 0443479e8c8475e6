"""A task that kills its worker, over and over: counted by nobody's survival, and stopped."""

from pathlib import Path

import pytest

from outlast import Outlast, Settings
from outlast.testing import ManualClock
from tests.support.children import Child
from tests.support.foreign import assert_sound, foreign_rows

pytestmark = pytest.mark.slow

GOOD = [f"good-{n}" for n in range(5)]


def _works_one_by_one(path: str, log: str) -> None:
    from pathlib import Path

    from outlast import Outlast
    from tests.support.childside import die, say

    app = Outlast(path)
    while leases := app.claim("w"):
        with Path(log).open("a") as file:
            file.write(leases[0].task_id + "\n")
        if leases[0].payload == "poison":
            die()
        leases[0].complete()
    say("empty")


def _works_from_a_bag(path: str, log: str) -> None:
    from pathlib import Path

    from outlast import Outlast
    from tests.support.childside import die, say

    app = Outlast(path)
    while leases := app.prefetch("w", limit=10):
        for lease in leases:
            lease.start()
            with Path(log).open("a") as file:
                file.write(lease.task_id + "\n")
            if lease.payload == "poison":
                die()
            lease.complete()
    say("empty")


@pytest.mark.proves("RTY-03", "RTY-04")
@pytest.mark.parametrize("work", [_works_one_by_one, _works_from_a_bag], ids=lambda f: f.__name__)
def test_a_poison_task_runs_four_times_and_the_good_ones_behind_it_are_done(
    database: Path, tmp_path: Path, work: object
) -> None:
    with Outlast(database) as app:
        app.enqueue("work", "poison", id="poison", priority=1)
        app.enqueue_many("work", range(5), id=GOOD)
    log = tmp_path / "executions"
    for _ in range(10):
        with Child(work, database, log) as worker:  # type: ignore[arg-type]
            if worker.hear_all() == ["empty"]:
                break
    executed = log.read_text().split()
    assert executed.count("poison") == 4
    assert sorted(executed) == sorted(GOOD + ["poison"] * 4)
    with Outlast(database) as app:
        assert app.counts() == {
            "pending": 0, "running": 0, "completed": 5, "failed": 1, "cancelled": 0
        }  # fmt: skip
        assert app.history("poison")[-1].reason == "max_retries_exceeded"
        assert (app.get("poison").attempt, app.get("poison").recovery_count) == (4, 3)
    assert_sound(database)


@pytest.mark.proves("RTY-04")
def test_the_claim_that_finds_a_poison_task_spent_hands_out_the_next_one(database: Path) -> None:
    """The same claim: put back by nobody before, found dead, settled, passed over."""
    # Else its detector settles the poison task before the claim does.
    with Outlast(database, settings=Settings(detection_interval_seconds=0)) as app:
        app.enqueue("work", "poison", id="poison", priority=1)
        for _ in range(4):
            with Child(_dies_with_a_task, database) as worker:
                assert worker.hear() == "poison"
                worker.kill()
        app.enqueue("work", id="good")
        assert foreign_rows(database, "SELECT status FROM tasks WHERE id = 'poison'") == [
            ["running"]
        ]
        (lease,) = app.claim("next")
        assert lease.task_id == "good"
        assert app.get("poison").status == "failed"


def _dies_with_a_task(path: str) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    (lease,) = Outlast(path).claim("w")
    say(lease.task_id)
    hear()


@pytest.mark.proves("RTY-03")
def test_a_task_that_only_fails_runs_four_times_too(app: Outlast, clock: ManualClock) -> None:
    app.enqueue("work", id="t")
    executions = 0
    while leases := app.claim("w"):
        executions += 1
        assert executions <= 4
        leases[0].fail("as always")
        clock.advance("1h")
    assert executions == 4
    task = app.get("t")
    assert (task.status, task.retry_count, task.recovery_count) == ("failed", 3, 0)
