"""What must be possible with any store whose process was killed: go on, and finish everything."""

from pathlib import Path

from outlast import Outlast
from outlast.testing import ManualClock
from tests.support.snapshots import Snapshot, foreign_snapshot


def assert_it_goes_on(database: Path, found: Snapshot) -> None:
    """Recovery runs, what is unfinished can be finished, what was final stays as it was."""
    clock = ManualClock()
    clock.advance("2d")
    app = Outlast(database, clock=clock)
    app.open()
    assert app.counts()["running"] == 0, "recovery puts back what dead processes held"
    _drain(app, clock)
    app.close()
    workers = database.with_name(f"{database.name}-outlast") / "workers"
    assert list(workers.iterdir()) == [], "the dead are buried, and those who never came to be"
    after = foreign_snapshot(database)
    assert after.faults == {}
    assert set(after.statuses) == set(found.statuses)
    for task_id, status in found.statuses.items():
        if status in ("completed", "failed", "cancelled"):
            assert after.statuses[task_id] == status
    assert not set(after.statuses.values()) & {"pending", "running"}


def _drain(app: Outlast, clock: ManualClock) -> None:
    app.unpause("default")
    for task in app.tasks("pending"):
        app.unpark(task.id)
    clock.advance("1h")
    while leases := app.claim("next", limit=5):
        app.complete_many([(lease, None) for lease in leases])
