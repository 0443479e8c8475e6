"""A store with everything a recovery report can tell of: real processes took tasks and died."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from outlast import Outlast, ReportDocument
from outlast.testing import ManualClock
from tests.recovery.stage import by_hand
from tests.support.children import Child

Make = Callable[..., Outlast]

FROZEN = """
CREATE TRIGGER frozen BEFORE UPDATE OF status ON tasks
WHEN old.id = 'stubborn' AND old.status = 'running'
BEGIN SELECT RAISE(ABORT, 'it is frozen'); END
"""
BY_KIND = {"policy": "fail", "care": "none"}


def _claims_of_queues(path: str, worker: str, queues: list[str], clock_ms: list[int]) -> None:
    from outlast import Outlast, Settings
    from outlast.testing import ManualClock
    from tests.support.childside import hear, say

    settings = Settings(recovery_enabled=False, detection_interval_seconds=0)
    app = Outlast(path, settings=settings, clock=ManualClock(*clock_ms))
    say([lease.task_id for lease in app.claim(worker, queue=queues, limit=10_000, lease="1h")])
    hear()


def lost(database: Path, worker: str, clock: ManualClock, *queues: str) -> list[str]:
    """A worker claims all there is in some queues and is killed; the ids of what it held."""
    with Child(_claims_of_queues, database, worker, list(queues), list(clock.now())) as child:
        held: list[str] = child.hear()
        child.kill()
    return held


def crashed_store(make_app: Make, clock: ManualClock, **settings: Any) -> Outlast:
    """Retries 2/3 and 3/3, failures by limit and by policy, one left alone, one that cannot be
    moved, of two dead workers; a minute and a half later, not yet recovered.
    """
    app = make_app(max_recovery_attempts=2, recovery_action_by_kind=BY_KIND, **settings)
    app.enqueue("work", id="task-spent", queue="spent", max_retries=2)
    app.enqueue("work", id="task-three", queue="three", max_retries=2)
    app.enqueue("work", id="task-two", queue="two", max_retries=2)
    app.enqueue("policy", id="task-policy", queue="two")
    app.enqueue("care", id="task-care", queue="two")
    app.enqueue("work", id="stubborn", queue="stubborn")
    for queues in (["spent"], ["spent", "three"]):
        lost(app.path, "worker-early", clock, *queues)
        app.recover()
        for queue in queues:
            app.unpark(f"task-{queue}")
    app.close()
    by_hand(app.path, FROZEN)
    assert len(lost(app.path, "worker-001", clock, "two", "three")) == 4
    clock.advance("30s")
    assert len(lost(app.path, "worker-002", clock, "spent", "stubborn")) == 2
    clock.advance("1m")
    return app


def report_of(app: Outlast, **page: int) -> ReportDocument:
    found = app.recovery_report(**page)
    assert found is not None
    return found
