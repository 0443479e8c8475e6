"""The record of a task just stored is made when it is looked at, and is a record like any other."""

import copy
import dataclasses
import pickle
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from outlast.domain.lifecycle import Parked, Status
from outlast.domain.task import NOTHING_STORED, Stored, Task, utc_of
from outlast.errors import InvalidInput

SAID = {
    "kind": "ingest",
    "queue": "gpu",
    "priority": 7,
    "group": "g",
    "parked": Parked.DELAY,
    "max_retries": 2,
    "max_recoveries": 5,
    "retry_of": "s",
    "created_at": utc_of(1_700_000_000_000),
    "updated_at": utc_of(1_700_000_000_001),
    "state_changed_at": utc_of(1_700_000_000_002),
    "not_before": utc_of(1_700_000_000_003),
    "stored_payload": Stored('{"a":1}', 99),
}
WHOLE = Task(id="t", **SAID)  # type: ignore[arg-type]


class Teller:
    """Counts how often it is asked; picklable."""

    def __init__(self) -> None:
        self.asked = 0

    def told(self) -> Mapping[str, Any]:
        self.asked += 1
        return SAID


@pytest.fixture
def teller() -> Teller:
    return Teller()


@pytest.fixture
def young(teller: Teller) -> Task:
    return Task.just_stored("t", teller)


def test_its_id_is_known_without_asking(young: Task, teller: Teller) -> None:
    """Guards the time of an enqueue: most callers want nothing but the id."""
    assert young.id == "t"
    assert (young.status, young.attempt, young.result) == (Status.PENDING, 0, None)
    assert teller.asked == 0


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Task)])
def test_each_field_is_that_of_the_whole_record(young: Task, name: str) -> None:
    """Guards against a field that is left to its default."""
    assert getattr(young, name) == getattr(WHOLE, name)


def test_it_is_asked_once(young: Task, teller: Teller) -> None:
    assert (young.kind, young.queue, young.priority, young.parked) == (
        "ingest",
        "gpu",
        7,
        Parked.DELAY,
    )
    assert teller.asked == 1


@pytest.mark.parametrize(
    "made",
    [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one)), dataclasses.replace],
)
def test_it_is_equal_to_the_record_that_would_be_read(young: Task, made: Any) -> None:
    assert made(young) == young == WHOLE
    assert hash(young) == hash(WHOLE)
    assert repr(young) == repr(WHOLE)
    assert dataclasses.asdict(young) == dataclasses.asdict(WHOLE)


def test_a_record_that_knows_its_store_can_be_copied_sent_and_taken_apart(young: Task) -> None:
    """Guards against the app, with its locks, being dragged along."""
    young.waiting_by(lambda task_id, timeout: threading.RLock())
    for one in (copy.copy(young), copy.deepcopy(young)):
        assert one.wait() is not None
    with pytest.raises(InvalidInput, match="knows no store"):
        pickle.loads(pickle.dumps(young)).wait()
    assert dataclasses.asdict(young) == dataclasses.asdict(WHOLE)


def test_two_who_look_at_once_both_see_it(teller: Teller) -> None:
    """Guards against one who finds the defaults while another is being told."""
    young = Task.just_stored("t", teller)
    inside, goes_on = threading.Event(), threading.Event()
    seen: list[str] = []

    def slow() -> Mapping[str, Any]:
        inside.set()
        goes_on.wait(30)
        return SAID

    teller.told = slow  # type: ignore[method-assign]
    first = threading.Thread(target=lambda: seen.append(young.kind))
    first.start()
    assert inside.wait(30)
    teller.told = lambda: SAID  # type: ignore[method-assign]
    seen.append(young.queue)
    goes_on.set()
    first.join(30)
    assert sorted(seen) == ["gpu", "ingest"]


def test_the_defaults_of_a_record_made_by_hand_are_what_they_were() -> None:
    plain = Task(id="t", kind="k", queue="q")
    assert (plain.priority, plain.group, plain.stored_payload) == (0, None, NOTHING_STORED)
    with pytest.raises(TypeError):
        Task(id="t")  # type: ignore[call-arg]
    with pytest.raises(dataclasses.FrozenInstanceError):
        plain.kind = "another"  # type: ignore[misc]
