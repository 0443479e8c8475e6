"""A COMMIT that raised is not a COMMIT that did not happen; resolve() finds out which it was."""

from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast
from outlast_lab.experiments.kill.writes import HALF, WHOLE
from tests.support.children import Child
from tests.support.foreign import assert_sound, foreign_statuses
from tests.support.snapshots import foreign_snapshot

pytestmark = pytest.mark.slow


def _meets_a_failing_disk(path: str, point: str, code: int, verb: str) -> None:
    """The write of the frame that ends the commit fails, with half or all of it in the file."""
    from outlast import OutcomeUnknown, Outlast, probes
    from outlast_lab.experiments.kill.writes import watch_writes
    from tests.support.childside import hear, say

    failing = False
    last_header = b""

    def fail_the_commit_frame(name: str, at: str, written: bytes) -> int:
        nonlocal last_header
        if len(written) == 24:
            last_header = written
        ends_a_commit = last_header[4:8] != bytes(4)
        spoiled = failing and name.endswith("-wal") and len(written) > 24
        return code if spoiled and ends_a_commit and at == point else 0

    def arm(name: str) -> None:
        nonlocal failing
        failing = name == f"{verb}.written"

    watch_writes(fail_the_commit_frame)
    app = Outlast(path)
    app.enqueue("work", id="claimed")
    (lease,) = app.claim("w")
    store = lease.complete if verb == "settle" else lambda: app.enqueue("work", id="doubtful")
    probes.arm(arm)
    try:
        store()
    except OutcomeUnknown as error:
        say([list(error.task_ids), str(error)])
    probes.arm(None)
    failing = False
    while (order := hear()) is not None:
        if order[0] == "again":
            say(lease.complete())
        elif order[0] == "next":
            say(app.enqueue("work", id="next").id)
        else:
            found = app.resolve(order[1])
            say(found and found.status)


EIO, ENOSPC = 5, 28


@pytest.fixture(params=[(HALF, EIO), (WHOLE, EIO), (HALF, ENOSPC)], ids=["torn", "whole", "full"])
def fault(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_resolve_makes_an_unknown_enqueue_certain(database: Path, fault: tuple[str, int]) -> None:
    with Child(_meets_a_failing_disk, database, *fault, "enqueue") as child:
        ids, message = child.hear()
        assert ids == ["doubtful"]
        assert "ask resolve(id)" in message
        child.say(["resolve", "doubtful"])
        answer = child.hear()
        assert answer == foreign_statuses(database).get("doubtful")
        child.kill()
    with Outlast(database) as app:
        found = app.resolve("doubtful")
        assert (found and found.status) == answer, "what resolve said stays true"
    assert foreign_statuses(database).get("doubtful") == answer
    assert_sound(database)


@pytest.mark.parametrize(("point", "there"), [(HALF, False), (WHOLE, True)], ids=["torn", "whole"])
def test_an_unknown_enqueue_may_turn_out_to_be_stored_after_a_crash(
    database: Path, point: str, there: bool
) -> None:
    """All of the commit is in the log although SQLite was told that the write had failed."""
    with Child(_meets_a_failing_disk, database, point, EIO, "enqueue") as child:
        assert child.hear()[0] == ["doubtful"]
        child.kill()
    assert ("doubtful" in foreign_snapshot(database).statuses) is there
    with Outlast(database) as app:
        assert (app.resolve("doubtful") is not None) is there
        assert (app.resolve("claimed") is not None) is True
    assert_sound(database)


def test_an_unknown_completion_can_be_asked_about_and_repeated(
    database: Path, fault: tuple[str, int]
) -> None:
    with Child(_meets_a_failing_disk, database, *fault, "settle") as child:
        assert child.hear()[0] == ["claimed"]
        child.say(["resolve", "claimed"])
        answer = child.hear()
        assert answer == foreign_statuses(database)["claimed"]
        child.say(["again"])
        assert child.hear() is (answer == "running"), "repeated if it has to be, else known"
        assert foreign_statuses(database) == {"claimed": "completed"}
    assert_sound(database)


def test_the_next_operation_after_an_unknown_one_is_stored(
    database: Path, fault: tuple[str, int]
) -> None:
    with Child(_meets_a_failing_disk, database, *fault, "enqueue") as child:
        child.hear()
        child.say(["next"])
        assert child.hear() == "next"
        child.say(["resolve", "doubtful"])
        answer = child.hear()
        child.kill()
    found = foreign_snapshot(database).statuses
    assert found["next"] == "pending"
    assert found.get("doubtful") == answer
    assert_sound(database, left=["claimed"])
