"""What does not want to be claimed costs a claim nothing, however much of it lies ahead."""

from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast
from outlast.domain.codec import payload_sum
from outlast.testing import ManualClock
from tests.store.hand import Hand
from tests.store.trace import Ran, Trace

pytestmark = pytest.mark.slow

BASE: dict[str, object] = {
    "queue": "default", "kind": "k", "priority": 9, "group_id": "g", "created_at": 1,
    "state_changed_at": 1,
}  # fmt: skip

# Columns that make the crowd what it is; each task of it would come first if it were eligible.
CROWDS: dict[str, dict[str, object]] = {
    "delayed": {"parked": "delay", "not_before": 1 << 50},
    "waiting for an event": {"parked": "event"},
    "on hold": {"parked": "hold"},
    "finished": {"status": "completed", "completed_at": 1},
    "failed": {"status": "failed", "completed_at": 1},
    "of another kind": {"kind": "foreign"},
    "of another group": {"group_id": "other"},
    "of another queue": {"queue": "other"},
    "in a paused queue": {"queue": "paused"},
    "running": {
        "status": "running", "holder": 1, "worker_id": "w", "token": 1, "attempt": 1,
        "lease_acquired_at": 1, "lease_expires_at": 1 << 50, "lease_expires_mono_ms": 1 << 50,
        "heartbeat_at": 1, "started_at": 1,
    },
}  # fmt: skip
NARROWED: dict[str, dict[str, Any]] = {
    "of another kind": {"kinds": ["k", "l"]},
    "of another group": {"group": "g"},
    "in a paused queue": {"queue": ["paused", "default"]},
}


def crowd_in(path: Path, columns: dict[str, object], size: int) -> None:
    row = BASE | columns
    hand = Hand(path)

    def sum_of(*ids: Any) -> int:
        return payload_sum(ids[0], str(row["kind"]), None)

    hand.connection.create_scalar_function("sum_of", sum_of)
    hand.run("INSERT INTO groups VALUES ('g', 1), ('other', 1)")
    hand.run(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
        f" INSERT INTO tasks (id, payload_sum, {', '.join(row)})"
        f" SELECT 'crowd ' || i, sum_of('crowd ' || i), {', '.join('?' * len(row))} FROM n",
        size,
        *row.values(),
    )
    hand.close()


def steps_of(ran: list[Ran]) -> int:
    assert ran, "the trace has to hear something"
    return sum(one.steps for one in ran)


def cost_of_claims(
    path: Path, clock: ManualClock, trace: Trace, ahead: str, size: int
) -> list[int]:
    """The steps of a claim of one, of a claim of ten, and of two that find nothing."""
    narrowed = NARROWED.get(ahead, {})
    with Outlast(path, clock=clock) as app:
        app.enqueue("anchor", queue="elsewhere")
        app.claim("w", queue="elsewhere")
        app.pause("paused")
        crowd_in(path, CROWDS[ahead], size)
        app.enqueue_many("k", range(12), group="g")
        assert [lease.payload for lease in app.claim("w", **narrowed)] == [0]
        with trace.listening() as one:
            assert [lease.payload for lease in app.claim("w", **narrowed)] == [1]
        with trace.listening() as ten:
            leases = app.claim("w", limit=10, **narrowed)
        assert [lease.payload for lease in leases] == list(range(2, 12))
        with trace.listening() as idle:
            assert app.claim("w", **narrowed) == []
            assert app.claim("w", **narrowed) == []
        return [steps_of(one), steps_of(ten), steps_of(idle)]


@pytest.mark.proves("PRF-08")
@pytest.mark.parametrize("ahead", CROWDS)
def test_a_claim_takes_as_many_steps_with_a_crowd_ahead_as_without(
    tmp_path: Path, clock: ManualClock, trace: Trace, ahead: str
) -> None:
    # Closing gives back what still runs, one by one: fewer of those keep the test short.
    size = 10_000 if ahead == "running" else 100_000
    alone = cost_of_claims(tmp_path / "alone.db", clock, trace, ahead, 1)
    crowded = cost_of_claims(tmp_path / "crowded.db", clock, trace, ahead, size)
    for before, after in zip(alone, crowded, strict=True):
        assert after < 2 * before, (alone, crowded)


def test_the_measure_tells_a_scan_from_a_search(trace: Trace, app: Outlast) -> None:
    app.enqueue_many("k", range(1000))
    with trace.listening() as search:
        app.tasks(limit=1)
    with trace.listening() as scan:
        app.counts("default")
    assert steps_of(scan) > 3000 > steps_of(search)
