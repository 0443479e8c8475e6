"""The crash of acode's sample report: `worker-001` dies with three tasks in hand.

Two of them were lost before, each task has three attempts, and the report is of five minutes later.
"""

from pathlib import Path
from typing import Any

from outlast import Outlast, Settings
from outlast.testing import ManualClock
from tests.cli.shell import piped
from tests.seeds.crashing import crash

HALF_PAST_TEN_MS = 1_705_314_600_000
BEGINS_BEFORE_MS = 7 * 60_000

ORPHANS = ("abc123", "def456", "ghi789")


def settings(**more: Any) -> Settings:
    """Three attempts by either budget, as in the sample."""
    given = {"max_recovery_attempts": 2, "detection_interval_seconds": 0, "heal_batch": 1}
    return Settings(**given | more)


def half_past_ten() -> ManualClock:
    """2024-01-15T10:30:00Z, when the sample's recovery starts."""
    return ManualClock(HALF_PAST_TEN_MS, mono_ms=10 * BEGINS_BEFORE_MS)


def crashed_store(folder: Path) -> Path:
    """The sample's store at the moment of its crash.

    Two of its tasks were lost before; a monitor had subscribed; the worker held a lock, too.
    """
    database = folder / "work.db"
    clock = ManualClock(*(ms - BEGINS_BEFORE_MS for ms in half_past_ten().now()))
    with Outlast(database, clock=clock, settings=settings()) as app:
        app.enqueue_many("work", range(3), id=ORPHANS, max_retries=2)
        for lost in (["ghi789"], ["def456", "ghi789"]):
            for lease in app.claim("earlier", limit=3, lease="1m"):
                if lease.task_id not in lost:
                    lease.release()
            clock.advance("1m")
            app.heal()
            for task_id in lost:
                app.unpark(task_id)
        app.subscribe(print, "monitor").close()
    assert crash(database, "worker-001", clock=clock, lock="merge") == list(ORPHANS)
    return database


def outlast(database: Path, *words: str, **variables: str) -> str:
    """What the command says, in a process of its own."""
    done = piped(database.parent, *words, "--store", database, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout
