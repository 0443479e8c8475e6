"""How tasks come to be orphans in these tests: real processes that take them and are killed."""

from collections.abc import Collection
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.store.hand import Hand, everything
from tests.support.children import Child
from tests.support.invariants import INVARIANTS


def _claims_and_waits(path: str, worker: str, limit: int, settings: dict[str, object]) -> None:
    from outlast import Outlast, Settings
    from outlast.testing import ManualClock
    from tests.support.childside import hear, say

    given = Settings(**settings)  # type: ignore[arg-type]
    app = Outlast(path, settings=given, clock=ManualClock())
    say([lease.task_id for lease in app.claim(worker, limit=limit)])
    hear()
    app.close()


def holder(database: Path, worker: str = "victim", limit: int = 100, **settings: Any) -> Child:
    """A process that will claim so many tasks, say their ids, and hold them until it is told.

    What it does with orphans itself stays out of the way: it has recovery switched off.
    """
    return Child(_claims_and_waits, database, worker, limit, {"recovery_enabled": False} | settings)


def crash(database: Path, worker: str = "victim", limit: int = 100, **settings: Any) -> list[str]:
    """A process claims so many tasks and is killed; the ids of what it held."""
    with holder(database, worker, limit, **settings) as child:
        held: list[str] = child.hear()
        child.kill()
    return held


def sessions_of(database: Path) -> list[Path]:
    """The session markers that lie beside the store."""
    return sorted(database.with_name(f"{database.name}-outlast").glob("sessions/*.session"))


# What a run writes about itself. All else is the store's content.
RUN_LOG = frozenset({"recovery_runs", "audit", "events", "meta", "sqlite_sequence"})


def content(database: Path) -> dict[str, list[Any]]:
    """Every row of every table but the record of runs."""
    with closing(Hand(database)) as hand:
        return {name: rows for name, rows in everything(hand).items() if name not in RUN_LOG}


def rows(database: Path, query: str, *values: Any) -> list[Any]:
    """What a query finds."""
    with closing(Hand(database)) as hand:
        return hand.rows(query, *values)


def assert_sound_inside(database: Path, left: Collection[str] = ()) -> None:
    """What assert_sound asks of a store, without a process that asks."""
    assert rows(database, "PRAGMA integrity_check") == [("ok",)]
    for name, query in INVARIANTS.items():
        assert rows(database, query) == [], name
    held = """
        SELECT t.id, w.pid, w.state FROM tasks t LEFT JOIN workers w ON w.seq = t.holder
        WHERE t.status = 'running'"""
    stuck = {
        task_id
        for task_id, pid, state in rows(database, held)
        if state != "alive" or not Path(f"/proc/{pid}").exists()
    }
    assert stuck == set(left), "these are still running, and their holders are gone"
    lost = """
        SELECT seq FROM sqlite_sequence
        WHERE name = 'tasks' AND seq <> (SELECT count(*) FROM tasks)"""
    assert rows(database, lost) == [], "not every task that was made is there"


def by_hand(database: Path, statement: str, *values: Any) -> None:
    """Do to a store what no verb of ours does."""
    with closing(Hand(database)) as hand:
        hand.run(statement, *values)


FROZEN = """
CREATE TRIGGER frozen BEFORE UPDATE OF status ON tasks WHEN old.id = 'stubborn'
BEGIN SELECT RAISE(ABORT, 'it is frozen'); END
"""
