"""A worker that ends its work in a process that goes on."""

from outlast import Outlast
from outlast.testing import ManualClock


def test_a_retired_worker_has_left_holds_nothing_and_may_come_back(
    app: Outlast, clock: ManualClock
) -> None:
    app.enqueue("work", id="a")
    (lease,) = app.claim("w")
    session = app._handle.serve()
    session.store.workers.retire("w", session.now())
    (worker,) = app.workers()
    assert (worker.state, worker.task_ids) == ("left", ())
    task = app.get("a")
    assert (task.status, task.attempt, task.recovery_count) == ("pending", 0, 0)
    (again,) = app.claim("w")
    assert again.token > lease.token
    (worker,) = app.workers()
    assert (worker.state, worker.ended_at, worker.task_ids) == ("alive", None, ("a",))
    assert again.complete()


def test_to_retire_a_worker_that_never_was_changes_nothing(app: Outlast) -> None:
    session = app._handle.serve()
    session.store.workers.retire("nobody", session.now())
    assert app.workers() == []
