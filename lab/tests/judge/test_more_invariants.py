"""Promises that are broken in histories made by hand; each was overlooked by the judges once."""

import hashlib
import zlib
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from outlast_lab.judge.foreign_reader import Move, Stored, StoredCheckpoint, StoredKey, StoredTask
from outlast_lab.judge.invariants import violations
from outlast_lab.record.history import ANSWERED, ASKS, Line, history_of

_numbers = count()


def call(worker: str, verb: str, arguments: Any, answer: tuple[str, Any], at: float) -> list[Line]:
    """Two lines: it is asked and, a tenth of a second later, answered."""
    number, later = str(next(_numbers)), at + 0.1
    return [
        [ASKS, number, worker, verb, arguments, at, int(at * 1000)],
        [ANSWERED, number, worker, *answer, later, int(later * 1000)],
    ]


def done(worker: str, verb: str, arguments: Any, value: Any, at: float) -> list[Line]:
    return call(worker, verb, arguments, ("done", value), at)


def enqueued(*ids: str, **more: Any) -> list[Line]:
    arguments = {"ids": list(ids), "payloads": [None] * len(ids), **more}
    return done("p", "enqueue" if len(ids) == 1 else "enqueue_many", arguments, list(ids), 0.0)


def claimed(
    worker: str, token: int, at: float, verb: str = "claim", ms: int = 10_000
) -> list[Line]:
    return done(worker, verb, {}, [["x", token, token, ms]], at)


def row(task_id: str, status: str, **fields: Any) -> StoredTask:
    plain = StoredTask(
        id=task_id, seq=1, status=status, kind="work", parked=None, attempt=0, retry_count=0,
        recovery_count=0, crashes_in_row=0, max_retries=3, max_recoveries=3, token=0, holder=None,
        worker_id=None, keyed=0, retry_of=None, payload_bytes=0,
        payload_sum=zlib.crc32(f"{task_id}\0work\0None".encode()), result_bytes=0,
        result_sum=None, payload=None, result=None,
    )  # fmt: skip
    return plain._replace(**fields)


def running(token: int, worker: str, **fields: Any) -> StoredTask:
    return row("x", "running", attempt=token, token=token, holder=1, worker_id=worker, **fields)


def claim(token: int, worker: str, at: int) -> Move:
    return Move("pending", "running", "worker", "claimed", token, token, worker, at)


def lost(token: int, reason: str, at: int, attempt: int | None = None) -> Move:
    counted = token if attempt is None else attempt
    return Move("running", "pending", "system/recovery", reason, counted, token, "a", at)


CHECKPOINT = StoredCheckpoint("t", 1, 1, "{}", f"sha256:{hashlib.sha256(b'{}').hexdigest()}")
NOTED = {"ids": ["x"], "token": 1, "type": "t", "data": {}}


def broken() -> Iterator[tuple[str, str, list[Line], Stored]]:
    """A name, the violation that must be told, the history and the store."""
    renewed = done("a", "renew", {"ids": ["x"], "token": 1}, True, 9.0)
    yield (
        "a lease is taken although it was renewed",
        "overlap",
        enqueued("x") + claimed("a", 1, 1.0) + renewed + claimed("b", 2, 12.0),
        Stored(
            {"x": running(2, "b", recovery_count=1, crashes_in_row=1)},
            {
                "x": [
                    claim(1, "a", 1000),
                    lost(1, "lease_expired_retry", 12_000),
                    claim(2, "b", 12_000),
                ]
            },
        ),
    )
    yield (
        "a living prefetcher is robbed",
        "overlap",
        enqueued("x") + claimed("a", 1, 1.0, "prefetch"),
        Stored(
            {"x": row("x", "pending", token=1)},
            {"x": [claim(1, "a", 1000), lost(1, "never_started", 2000, 0)]},
        ),
    )
    yield (
        "a lease is called expired too early, and nobody takes it",
        "overlap",
        enqueued("x") + claimed("a", 1, 1.0),
        Stored(
            {"x": row("x", "pending", token=1, attempt=1, recovery_count=1, crashes_in_row=1)},
            {"x": [claim(1, "a", 1000), lost(1, "lease_expired_retry", 2000)]},
        ),
    )
    yield (
        "a claim that was refused has happened",
        "phantom",
        enqueued("x") + call("a", "claim", {}, ("refused", "StoreError"), 1.0),
        Stored({"x": running(1, "a")}, {"x": [claim(1, "a", 1000)]}),
    )
    halves = {"leases": [["x", 1], ["y", 1]], "results": [None, None]}
    two = done("a", "claim", {}, [["x", 1, 1, 9000], ["y", 1, 1, 9000]], 1.0)
    finished = Move("running", "completed", "worker", "completed", 1, 1, "a", 2000)
    yield (
        "half of many completions are stored",
        "torn",
        enqueued("x", "y") + two + call("a", "complete_many", halves, ("unknown", ""), 2.0),
        Stored(
            {
                "x": row("x", "completed", attempt=1, token=1),
                "y": row("y", "running", seq=2, attempt=1, token=1, holder=1, worker_id="a"),
            },
            {"x": [claim(1, "a", 1000), finished], "y": [claim(1, "a", 1000)]},
        ),
    )
    yield (
        "a key is gone",
        "lost",
        enqueued("x", idempotency_key="k"),
        Stored({"x": row("x", "pending", keyed=1)}),
    )
    again = done(
        "p", "enqueue", {"ids": ["y"], "payloads": [None], "idempotency_key": "k"}, ["y"], 1
    )
    yield (
        "a key stands for two tasks",
        "twice",
        enqueued("x", idempotency_key="k") + again,
        Stored(
            {"x": row("x", "completed"), "y": row("y", "pending", seq=2, keyed=1)},
            keys={"k": StoredKey("k", "y", "pending", 86_400_000)},
        ),
    )
    yield (
        "a parked task is not parked",
        "lost",
        enqueued("x") + done("o", "park_task", {"ids": ["x"]}, True, 1.0),
        Stored({"x": row("x", "pending")}),
    )
    yield (
        "a paused queue is not paused",
        "lost",
        enqueued("x") + done("o", "pause", {"queue": "default"}, None, 1.0),
        Stored({"x": row("x", "pending")}),
    )
    cancelled = Move("running", "cancelled", "user", "cancelled", 1, 1, "a", 2000)
    yield (
        "a write is accepted after the task was cancelled",
        "zombie",
        enqueued("x") + claimed("a", 1, 1.0) + done("o", "cancel", {"ids": ["x"]}, True, 2.0)
        + done("a", "renew", {"ids": ["x"], "token": 1}, True, 3.0),
        Stored(
            {"x": row("x", "cancelled", attempt=1, token=1)},
            {"x": [claim(1, "a", 1000), cancelled]},
        ),
    )  # fmt: skip
    held = Stored({"x": running(1, "a")}, {"x": [claim(1, "a", 1000)]}, {"x": [CHECKPOINT]})
    noting = enqueued("x") + claimed("a", 1, 1.0) + done("a", "checkpoint", NOTED, True, 2.0)
    yield (
        "one of two checkpoints is gone",
        "lost",
        noting + done("a", "checkpoint", NOTED, True, 3.0),
        held,
    )
    twice = [CHECKPOINT, CHECKPOINT._replace(number=2)]
    yield (
        "a checkpoint is there twice",
        "phantom",
        noting,
        Stored(held.tasks, held.moves, {"x": twice}),
    )
    later = [CHECKPOINT._replace(number=5)]
    yield "checkpoints begin at five", "lost", noting, Stored(held.tasks, held.moves, {"x": later})
    bulk = call(
        "p", "enqueue_many", {"ids": ["x", "y"], "payloads": [None, None]}, ("unknown", ""), 0.0
    )
    yield (
        "half of a bulk is stored, and a take found nothing",
        "torn",
        bulk + done("a", "take", {"limit": 1}, [], 1.0),
        Stored({"x": row("x", "pending")}),
    )
    short = done("p", "enqueue_many", {"ids": ["x", "y"], "payloads": [None, None]}, ["x"], 0.0)
    yield "a bulk is answered in part", "lost", short, Stored({"x": row("x", "pending")})
    yield (
        "a task lies in another queue",
        "lost",
        enqueued("x", queue="gpu"),
        Stored({"x": row("x", "pending")}),
    )


BROKEN = list(broken())


@pytest.mark.parametrize(
    ("name", "kind", "lines", "stored"), BROKEN, ids=[one[0] for one in BROKEN]
)
def test_a_broken_promise_is_told(name: str, kind: str, lines: list[Line], stored: Stored) -> None:
    assert kind in {one.kind for one in violations(history_of(lines), stored)}


def test_a_claim_that_came_too_late_for_a_closing_object_and_was_given_back_is_no_phantom() -> None:
    given_back = Move("running", "pending", "worker", "released", 0, 1, "a", 1000)
    stored = Stored({"x": row("x", "pending", token=1)}, {"x": [claim(1, "a", 1000), given_back]})
    lines = enqueued("x") + call("a", "claim", {}, ("refused", "StoreError"), 1.0)
    assert violations(history_of(lines), stored) == []
