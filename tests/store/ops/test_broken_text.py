import pytest

from outlast import Outlast, Parked, PayloadDamaged
from tests.store.hand import Hand


@pytest.mark.parametrize("size", [10, 5000])
def test_a_payload_that_is_no_text_any_more_is_set_aside(
    app: Outlast, hand: Hand, size: int
) -> None:
    app.enqueue("k", "y" * size, id="bad", priority=5)
    app.enqueue("k", id="good")
    column, table = ("payload", "tasks") if size < 2048 else ("data", "blobs")
    where = "WHERE id = 'bad'" if size < 2048 else ""
    flipped = f"CAST(x'22ff' || substr(CAST({column} AS BLOB), 3) AS TEXT)"
    assert hand.run(f"UPDATE {table} SET {column} = {flipped} {where}") == 1
    (lease,) = app.claim("w")
    assert lease.task_id == "good"
    assert app.get("bad").parked is Parked.PARTIAL
    assert len(app.tasks()) == 2
    with pytest.raises(PayloadDamaged):
        _ = app.get("bad").payload


@pytest.mark.parametrize("size", [10, 5000])
def test_a_result_that_is_no_text_any_more_is_damaged(app: Outlast, hand: Hand, size: int) -> None:
    app.enqueue("k", id="t")
    (lease,) = app.claim("w")
    lease.complete("y" * size)
    column, table = ("result", "tasks") if size < 2048 else ("data", "blobs")
    flipped = f"CAST(x'22ff' || substr(CAST({column} AS BLOB), 3) AS TEXT)"
    assert hand.run(f"UPDATE {table} SET {column} = {flipped}") == 1
    with pytest.raises(PayloadDamaged):
        _ = app.get("t").result
