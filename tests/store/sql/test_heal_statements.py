"""Orphans are found by the set: as many questions for ten of them as for four hundred."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast import Outlast, Settings
from outlast.testing import ManualClock
from tests.conformance.driver import PATIENCE
from tests.store.trace import Ran, Trace
from tests.support.children import Child


def questions(ran: list[Ran]) -> list[str]:
    """The statements that look for something, without their comments."""
    bare = (re.sub(r"^--.*\n", "", one.text, flags=re.MULTILINE) for one in ran)
    return [text for text in bare if text.startswith("SELECT")]


def _claims_and_waits(path: str, count: int) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path)
    app.enqueue_many("k", range(count))
    say(len(app.claim("w", limit=count)))
    hear()


def questions_about_the_dead(path: Path, trace: Trace, orphans: int) -> list[str]:
    with Child(_claims_and_waits, path, orphans) as child:
        assert child.hear() == orphans
        child.kill()
    # The detector asks too, whenever it comes to it.
    app = Outlast(path, settings=Settings(detection_interval_seconds=0))
    with trace.listening() as ran:
        app.open()
    assert app.counts()["pending"] == orphans
    app.close()
    return questions(ran)


def questions_about_the_late(
    path: Path, clock: ManualClock, trace: Trace, orphans: int
) -> list[str]:
    settings = Settings(detection_interval_seconds=0)
    with Outlast(path, clock=clock, settings=settings) as app:
        app.enqueue_many("k", range(orphans))
        app.claim("w", limit=orphans)
        clock.advance("10m")
        with trace.listening() as ran:
            assert app.heal().entries_reclaimed == orphans
    return questions(ran)


@pytest.mark.proves("PRF-10")
def test_the_tasks_of_a_dead_worker_are_found_by_the_set(tmp_path: Path, trace: Trace) -> None:
    few = questions_about_the_dead(tmp_path / "few.db", trace, 110)
    many = questions_about_the_dead(tmp_path / "many.db", trace, 400)
    assert few == many
    assert any("task_situations" in text for text in few)


@pytest.mark.proves("PRF-10")
def test_leases_that_ran_out_are_found_by_the_set(
    tmp_path: Path, clock: ManualClock, trace: Trace
) -> None:
    few = questions_about_the_late(tmp_path / "few.db", clock, trace, 10)
    many = questions_about_the_late(tmp_path / "many.db", clock, trace, 400)
    assert few == many
    assert any("task_situations" in text for text in few)


@pytest.mark.proves("PRF-10")
def test_looking_whether_healing_is_due_asks_the_same_whatever_is_stuck(
    make_app: Callable[..., Outlast], clock: ManualClock, trace: Trace
) -> None:
    app = make_app(heal_at_claim=False)
    asked = []
    for more in (10, 390):
        app.enqueue_many("k", range(more))
        app.claim("w", limit=more)
        clock.advance("10m")
        with trace.listening() as ran:
            assert app._handle.serve().store.recovery.is_due(clock.now(), PATIENCE)
        asked.append(questions(ran))
    assert asked[0] == asked[1] != []
