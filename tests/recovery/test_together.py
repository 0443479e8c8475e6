"""Several processes that start on the same crashed store at the same moment."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from outlast import Outlast
from tests.recovery.stage import crash, rows
from tests.support.children import Child
from tests.support.foreign import assert_sound

STARTERS = 4
TASKS = 40


def _starts(path: str) -> None:
    from outlast import Outlast, Settings
    from outlast.testing import ManualClock
    from tests.support.childside import hear, say

    settings = Settings(heal_batch=3, heal_at_claim=False, detection_interval_seconds=0)
    app = Outlast(path, settings=settings, clock=ManualClock())
    say("ready")
    hear()
    app.open()
    say("open")
    hear()
    app.close()
    say("closed")


@pytest.mark.proves("REC-09")
def test_of_four_processes_that_start_together_one_recovers_and_three_find_nothing_left(
    make_app: Callable[..., Outlast], database: Path
) -> None:
    app = make_app()
    app.enqueue_many("work", range(TASKS))
    app.close()
    assert len(crash(database, limit=TASKS)) == TASKS
    (before,) = rows(database, "SELECT max(id) FROM recovery_runs")
    with ExitStack() as stack:
        starters = [stack.enter_context(Child(_starts, database)) for _ in range(STARTERS)]
        for said in ("ready", "open", "closed"):
            for starter in starters:
                assert starter.hear() == said
            for starter in starters:
                if said != "closed":
                    starter.say("go on")
    runs = "SELECT put_back, failed, pid FROM recovery_runs WHERE id > ? ORDER BY put_back"
    found = rows(database, runs, *before)
    assert [(back, failed) for back, failed, _ in found] == [(0, 0)] * 3 + [(TASKS, 0)]
    assert {pid for _, _, pid in found} == {starter.pid for starter in starters}
    dead = "SELECT count(*) FROM events WHERE kind = 'worker.dead'"
    assert rows(database, dead) == [(1,)]
    counts = "SELECT DISTINCT status, attempt, recovery_count FROM tasks"
    assert rows(database, counts) == [("pending", 1, 1)]
    assert_sound(database)


@pytest.mark.proves("REC-09")
def test_no_two_of_them_recover_at_the_same_time(
    make_app: Callable[..., Outlast], database: Path
) -> None:
    """Start and end of a run share a stream with all that it does: no two runs are interleaved."""
    app = make_app()
    app.enqueue_many("work", range(6))
    app.close()
    crash(database)
    with ExitStack() as stack:
        starters = [stack.enter_context(Child(_starts, database)) for _ in range(STARTERS)]
        for starter in starters:
            starter.hear()
        for starter in starters:
            starter.say("go on")
        for starter in starters:
            assert starter.hear() == "open"
    stream = """
        SELECT kind, run_id FROM events
        WHERE kind IN ('recovery.started', 'recovery.completed') ORDER BY pos"""
    said = rows(database, stream)
    assert len(said) >= 2 * STARTERS
    for started, completed in zip(said[::2], said[1::2], strict=True):
        assert (started[0], completed[0]) == ("recovery.started", "recovery.completed")
        assert started[1] == completed[1]


def _forks_while_it_recovers(path: str) -> None:
    import os
    import threading

    from outlast import Batch, Outlast, Settings
    from tests.support.childside import hear, say

    app = Outlast(path, settings=Settings(detection_interval_seconds=0))
    under_way, go_on = threading.Event(), threading.Event()

    def pauses(batch: Batch) -> None:
        under_way.set()
        go_on.wait()

    recovering = threading.Thread(target=app.recover, args=(pauses,))
    recovering.start()
    under_way.wait()
    reads, writes = os.pipe()
    if os.fork() == 0:
        os.close(writes)
        os.read(reads, 1)
        os._exit(0)
    go_on.set()
    recovering.join()
    say("recovered")
    hear()


@pytest.mark.proves("REC-09")
def test_a_process_that_was_forked_meanwhile_keeps_nobody_waiting_afterwards(
    crashed: Path, make_app: Callable[..., Outlast]
) -> None:
    with Child(_forks_while_it_recovers, crashed) as child:
        assert child.hear() == "recovered"
        assert make_app(open_timeout_seconds=0.2).open().counts()["pending"] == 2
