"""With -v, recovery gives its reason for each task it took back or left alone."""

from pathlib import Path

import pytest

from tests.cli.shell import piped
from tests.support.children import Child


def _claims_and_waits(path: str, worker: str, *task_ids: str) -> None:
    from outlast import Outlast, Settings
    from tests.support.childside import hear, say

    # Else the living one takes back what the dying one held before the command is there to do it.
    app = Outlast(path, settings=Settings(detection_interval_seconds=0))
    for task_id in task_ids:
        app.enqueue("index", id=task_id, queue=worker)
    app.claim(worker, queue=worker, limit=9)
    say()
    hear()


@pytest.mark.proves("OBS-18")
def test_verbose_shows_why_each_task_was_or_was_not_recovered(database: Path) -> None:
    with Child(_claims_and_waits, database, "living", "t1", "t2") as living:
        living.hear()
        with Child(_claims_and_waits, database, "dying", "t3", "t4") as dying:
            dying.hear()
            dying.kill()
        done = piped(database.parent, "-v", "queue", "pause", "x", "--store", database)
        quiet = piped(database.parent, "queue", "pause", "y", "--store", database)
    assert (done.returncode, quiet.stderr) == (0, "")
    lines = done.stderr.splitlines()
    stays = (
        f"stays with worker living (pid {living.pid}): its lock is held and its lease has not run"
        " out"
    )
    died = (
        f"is pending (crash_retry): worker dying (pid {dying.pid}) died while running this task of"
        " kind index: it ended without a word (its lock is free)"
    )
    for task_id, level, reason in [
        ("t1", "debug", stays),
        ("t2", "debug", stays),
        ("t3", "info", died),
        ("t4", "info", died),
    ]:
        (line,) = [one for one in lines if f" task {task_id} " in one]
        assert f" {level} outlast.heal: " in line
        assert reason in line
