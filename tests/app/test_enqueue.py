import math
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from outlast import InvalidInput, Outlast, PayloadRejected
from outlast.testing import ManualClock

NOTHING = {"pending": 0, "running": 0, "completed": 0, "failed": 0, "cancelled": 0}


@pytest.mark.proves("QUE-12")
def test_a_kind_is_all_an_enqueue_needs(app: Outlast, clock: ManualClock) -> None:
    task = app.enqueue("llm_call")
    assert (task.kind, task.payload, task.queue, task.group) == ("llm_call", None, "default", None)
    assert (task.status, task.priority, task.parked) == ("pending", 0, None)
    assert (task.attempt, task.retry_count, task.recovery_count) == (0, 0, 0)
    assert (task.max_retries, task.max_recoveries) == (3, None)
    assert task.created_at.timestamp() * 1000 == clock.now().utc_ms


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"payload": {"a": [1, None]}, "priority": -3, "queue": "q", "group": "g"},
        {"payload": "é" * 5000, "id": "mine", "max_retries": 0, "delay": "90s"},
        {"run_at": datetime(2030, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))},
    ],
)
def test_what_enqueue_returns_is_what_get_returns(app: Outlast, options: dict[str, Any]) -> None:
    task = app.enqueue("work", **options)
    assert app.get(task.id) == task


@pytest.mark.proves("QUE-07")
def test_an_id_is_the_callers_or_a_rising_uuid(app: Outlast) -> None:
    assert app.enqueue("work", id="order 17").id == "order 17"
    ids = [app.enqueue("work").id for _ in range(50)]
    assert ids == sorted(set(ids))
    assert {uuid.UUID(task_id).version for task_id in ids} == {7}
    with pytest.raises(InvalidInput, match="'order 17' exists already"):
        app.enqueue("work", id="order 17")
    assert app.counts()["pending"] == 51


@pytest.mark.proves("QUE-09")
def test_a_kind_is_required(app: Outlast) -> None:
    app.open()
    with pytest.raises(TypeError, match="kind"):
        app.enqueue()  # type: ignore[call-arg]
    for kind in ("", None, 7):
        with pytest.raises(InvalidInput, match="kind must be a non-empty text"):
            app.enqueue(kind)  # type: ignore[arg-type]
    assert app.counts() == NOTHING


@pytest.mark.proves("QUE-09")
def test_the_kind_selects_the_policy_and_whose_claim_gets_the_task(
    make_app: Callable[..., Outlast],
) -> None:
    app = make_app(lease_seconds_by_kind={"llm_call": 60, "tool_execution": 600})
    for kind in ("tool_execution", "llm_call", "subtask"):
        app.enqueue(kind)
    leases = {kind: app.claim("w", kinds=[kind])[0] for kind in ("llm_call", "subtask")}
    leases["tool_execution"] = app.claim("w")[0]
    assert {kind: lease.kind for kind, lease in leases.items()} == {k: k for k in leases}
    lengths = {kind: lease.lease_ms // 1000 for kind, lease in leases.items()}
    assert lengths == {"llm_call": 60, "tool_execution": 600, "subtask": 300}


WRONG: list[dict[str, Any]] = [
    {"kind": ""},
    {"kind": "a\nb"},
    {"kind": "k" * 513},
    {"payload": object()},
    {"payload": {"deep": [math.nan]}},
    {"payload": "x" * (1 << 20)},
    {"payload": "\ud800"},
    {"queue": ""},
    {"queue": 5},
    {"priority": "high"},
    {"priority": 1.0},
    {"priority": True},
    {"priority": 1 << 40},
    {"id": ""},
    {"id": 5},
    {"id": "x\0"},
    {"group": ""},
    {"group": 5},
    {"delay": -1},
    {"delay": "soon"},
    {"delay": math.inf},
    {"delay": "1s", "run_at": datetime(2030, 1, 1, tzinfo=UTC)},
    {"run_at": datetime(2030, 1, 1)},  # noqa: DTZ001 - the naive time is the point
    {"run_at": 1_900_000_000},
    {"max_retries": -1},
    {"max_retries": 1.5},
    {"max_retries": True},
    {"idempotency_key": ""},
    {"idempotency_key": 5},
    {"also": ["INSERT INTO mine VALUES (1)"]},
    {"also": "INSERT INTO mine VALUES (1)"},
    {"also": [(1, ())]},
]


@pytest.mark.proves("QUE-11")
@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_input_is_one_sentence_and_nothing_is_written(
    app: Outlast, wrong: dict[str, Any]
) -> None:
    app.open()
    before = app.schema()
    with pytest.raises(InvalidInput) as refused:
        app.enqueue(**({"kind": "work", "group": "g"} | wrong))
    assert "\n" not in str(refused.value)
    assert 10 < len(str(refused.value)) < 800
    assert isinstance(refused.value, PayloadRejected) == ("payload" in wrong)
    assert app.counts() == NOTHING
    assert app.keys(status="pending") == []
    with pytest.raises(LookupError):
        app.group("g")
    assert app.schema() == before


@pytest.mark.proves("QUE-11")
def test_a_result_that_is_not_json_is_refused_and_the_lease_stays(app: Outlast) -> None:
    app.enqueue("work", id="t1")
    (lease,) = app.claim("w")
    for result in (object(), {"a": math.inf}, "x" * (1 << 20)):
        with pytest.raises(PayloadRejected, match=r"^result "):
            lease.complete(result)
    assert app.get("t1").status == "running"
    assert lease.complete({"fine": True})


@pytest.mark.proves("QUE-25")
def test_a_delay_holds_a_task_back(app: Outlast, clock: ManualClock) -> None:
    app.enqueue("work", id="t1", delay="10m")
    clock.advance("599s")
    assert app.claim("w") == []
    clock.advance("1s")
    assert [lease.task_id for lease in app.claim("w")] == ["t1"]


def test_run_at_is_a_moment_in_any_zone_and_the_past_is_now(
    app: Outlast, clock: ManualClock
) -> None:
    now = datetime.fromtimestamp(clock.now().utc_ms / 1000, UTC)
    east = timezone(timedelta(hours=9))
    later = app.enqueue("work", id="later", run_at=(now + timedelta(hours=1)).astimezone(east))
    past = app.enqueue("work", id="past", run_at=now - timedelta(hours=1))
    zero = app.enqueue("work", id="zero", delay=0)
    assert (past.parked, past.not_before, zero.parked) == (None, None, None)
    assert later.not_before == now + timedelta(hours=1)
    ready = app.claim("w", limit=9, lease="1d")
    assert [lease.task_id for lease in ready] == ["past", "zero"]
    clock.advance("1h")
    assert [lease.task_id for lease in app.claim("w", limit=9)] == ["later"]


@pytest.mark.proves("CFG-05")
def test_the_retry_limit_is_given_at_construction_or_for_one_task(
    make_app: Callable[..., Outlast],
) -> None:
    assert make_app().enqueue("work").max_retries == 3
    app = make_app(max_retries=1)
    assert (app.enqueue("work").max_retries, app.enqueue("work").max_recoveries) == (1, None)
    assert app.enqueue("work", max_retries=7).max_retries == 7
    assert app.get(app.enqueue("work", max_recoveries=7).id).max_recoveries == 7
    task = app.enqueue("once", max_retries=0)
    (lease,) = app.claim("w", kinds=["once"])
    lease.fail("broken")
    assert app.get(task.id).status == "failed"
    task = app.enqueue("twice")
    for _ in range(2):
        (lease,) = app.claim("w", kinds=["twice"])
        lease.fail("broken", delay=0)
    assert (app.get(task.id).status, app.get(task.id).attempt) == ("failed", 2)
