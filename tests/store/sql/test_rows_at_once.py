"""Statements about many rows: rows of nothing fill them up, and are neither stored nor counted."""

import pytest

from outlast import Outlast

COUNTS = [1, 2, 3, 5, 9, 17, 25, 33, 49, 65, 97, 127, 128, 129, 131]


@pytest.mark.parametrize("count", COUNTS)
def test_any_number_of_tasks_is_stored_and_completed_in_order(app: Outlast, count: int) -> None:
    """Guards the rows beyond the last one from being stored, and each row from its neighbours'."""
    ids = [f"t{number:03}" for number in range(count)]
    assert app.enqueue_many("work", [{"n": number} for number in range(count)], id=ids) == ids
    leases = app.claim("w", limit=count + 10)
    assert [lease.task_id for lease in leases] == ids
    assert [lease.payload["n"] for lease in leases] == list(range(count))
    assert app.complete_many([(lease, {"was": lease.payload["n"]}) for lease in leases])
    assert [app.get(task_id).result["was"] for task_id in ids] == list(range(count))
    assert sum(app.counts().values()) == count
