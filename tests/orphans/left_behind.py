"""How tasks come to be left behind here: killed processes, and rows of far-away ones."""

import json
from pathlib import Path
from typing import Any

from outlast import Outlast
from tests.store.hand import Hand
from tests.support.children import Child

ELSEWHERE = "00000000-0000-0000-0000-00000000b007"
LONG = "1h"


def _claims_and_waits(path: str, worker: str, limit: int, settings: str) -> None:
    import json

    from outlast import Outlast, Settings
    from outlast.testing import ManualClock
    from tests.support.childside import hear, say

    app = Outlast(path, settings=Settings(**json.loads(settings)), clock=ManualClock())
    say([lease.task_id for lease in app.claim(worker, limit=limit, lease="1h")])
    hear()
    app.close()
    say("closed")


def holding(database: Path, worker: str = "victim", limit: int = 100, **settings: Any) -> Child:
    """A process that has claimed so many tasks, if they are there, and holds them until told."""
    given = json.dumps({"recovery_enabled": False} | settings)
    child = Child(_claims_and_waits, database, worker, limit, given)
    child.hear()
    return child


def killed(database: Path, worker: str = "victim", limit: int = 100) -> None:
    """A process claims so many tasks and is killed with them."""
    with holding(database, worker, limit):
        pass


def stranger(app: Outlast, hand: Hand, **columns: Any) -> None:
    """The one task there is runs in the hands of a worker whose lock file is not to be found.

    Its row says what is given: nobody starts another boot, or a pid that passed on, for a test.
    """
    app.enqueue("work", id="t")
    app.claim("stranger", lease=LONG)
    given = {"incarnation": "5" * 32, "lock_file": "gone.lock"} | columns
    names = ", ".join(f"{name} = ?" for name in given)
    hand.run(f"UPDATE workers SET {names} WHERE name = 'stranger'", *given.values())


def by_hand(database: Path, statement: str) -> None:
    """One statement of somebody with a SQL prompt."""
    hand = Hand(database)
    hand.run(statement)
    hand.close()


def markers_of(database: Path) -> list[Path]:
    """The session markers beside a store."""
    return sorted(database.with_name(f"{database.name}-outlast").glob("sessions/*.session"))
