from typing import Any

import pytest

from outlast import Outlast
from outlast.testing import ManualClock
from tests.store.hand import Hand, Refused


@pytest.mark.proves("MIG-13", "CKP-20")
def test_a_deleted_group_takes_tasks_and_checkpoints_along(app: Outlast, hand: Hand) -> None:
    app.enqueue("k", id="t", group="g", idempotency_key="key")
    app.enqueue("k", id="stranger", group="other")
    for lease in app.claim("w", limit=2):
        lease.checkpoint("manual_checkpoint", {})
    assert hand.run("DELETE FROM groups WHERE id = 'g'") == 1
    assert hand.rows("SELECT id FROM tasks") == [("stranger",)]
    assert hand.value("SELECT count(*) FROM task_checkpoints") == 1
    assert hand.rows("SELECT task_id, group_id FROM task_keys") == [(None, None)]
    with pytest.raises(Refused):
        hand.run("DELETE FROM task_checkpoints")


@pytest.mark.proves("CKP-04")
@pytest.mark.parametrize("unique", ["pos", "id", "task_seq, sequence_number"])
def test_a_checkpoint_cannot_be_replaced(app: Outlast, hand: Hand, unique: str) -> None:
    app.enqueue("k", id="t")
    (lease,) = app.claim("w")
    lease.checkpoint("manual_checkpoint", {"mine": 1})
    values: dict[str, Any] = hand.records("SELECT * FROM task_checkpoints")[0]
    kept = {name: values[name] for name in unique.split(", ")}
    row = values | {"pos": None, "id": "x", "sequence_number": 9, "snapshot_data": "{}"} | kept
    columns, marks = ", ".join(row), ", ".join("?" * len(row))
    with pytest.raises(Refused):
        hand.run(f"REPLACE INTO task_checkpoints ({columns}) VALUES ({marks})", *row.values())
    assert hand.records("SELECT * FROM task_checkpoints") == [values]


def test_updated_at_never_falls(hand: Hand) -> None:
    app_clock = ManualClock(utc_ms=1_700_000_000_000)
    with Outlast(str(hand.connection.db_filename("main")), clock=app_clock) as app:
        app.enqueue("k", id="t")
        app.claim("w")
        shown = app.get("t").updated_at
        hand.run("UPDATE tasks SET heartbeat_at = 1, state_changed_at = 1")
        assert app.get("t").updated_at >= shown
