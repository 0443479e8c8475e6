import inspect
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from outlast import Settings
from outlast.store.opening import Backend
from outlast.store.store import Store
from outlast.testing import ManualClock
from tests.conformance.driver import Driver


def _verbs(protocol: type) -> set[str]:
    return {name for name in dir(protocol) if not name.startswith("_")}


def _parameters(function: Any) -> list[tuple[str, Any]]:
    found = inspect.signature(function).parameters.values()
    return [(one.name, one.default) for one in found if one.name != "self"]


@pytest.mark.proves("API-06")
def test_a_store_answers_every_verb_of_the_protocol_healing_included(store: Store) -> None:
    verbs = _verbs(Store)
    assert {"add", "claim", "settle", "renew", "heal", "healing_is_due", "resolve"} <= verbs
    for verb in verbs:
        promised = getattr(Store, verb)
        if isinstance(promised, property):
            kind = get_type_hints(promised.fget)["return"]
            assert isinstance(getattr(store, verb), kind), verb
        else:
            assert _parameters(getattr(type(store), verb)) == _parameters(promised), verb
    assert store.closed is False


@pytest.mark.proves("API-06")
def test_a_store_opened_to_look_answers_the_reading_verbs_and_offers_no_other(
    backend: Backend, tmp_path: Path, clock: ManualClock
) -> None:
    path = tmp_path / "work.db"
    serving = backend.serve(path, Settings(), clock.now())
    Driver(serving, clock).add("t1", payload=1)
    before = serving.get("t1")
    assert backend.leave(serving, clock.now()) is True
    looking = backend.look(path, Settings())
    assert [verb for verb in _verbs(Store) if not hasattr(looking, verb)] == []
    writing = _verbs(Store) - _verbs(Store)
    assert [verb for verb in writing if hasattr(looking, verb)] == []
    assert looking.tasks.get("t1") == before
    assert backend.leave(looking, clock.now()) is True


def test_all_who_serve_one_file_in_a_process_share_one_store_until_the_last_leaves(
    backend: Backend, tmp_path: Path, clock: ManualClock
) -> None:
    path = tmp_path / "work.db"
    first, second = (backend.serve(path, Settings(), clock.now()) for _ in range(2))
    assert first is second
    assert backend.leave(second, clock.now()) is False
    Driver(first, clock).add("t1")
    assert backend.leave(first, clock.now()) is True
    assert first.closed


def test_leaving_last_gives_back_what_is_held_and_the_next_opening_finds_all(
    backend: Backend, tmp_path: Path, clock: ManualClock
) -> None:
    path = tmp_path / "work.db"
    store = backend.serve(path, Settings(), clock.now())
    driver = Driver(store, clock)
    driver.add("t1", "t2", payload={"a": 1})
    driver.settle(driver.claim_one())
    driver.claim_one()
    backend.leave(store, clock.now())
    again = backend.serve(path, Settings(), clock.now())
    assert (again.counts(None)["completed"], again.counts(None)["pending"]) == (1, 1)
    task = again.get("t2")
    assert task is not None
    assert (task.attempt, task.payload) == (0, {"a": 1})
    backend.leave(again, clock.now())
