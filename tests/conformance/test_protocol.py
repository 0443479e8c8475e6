import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import outlast.store
from outlast import Settings, StoreError
from outlast.store.engine import Engine
from outlast.store.opening import Backend
from outlast.store.sqlite.engine import ServingEngine
from outlast.store.sqlite.looking_engine import LookingEngine
from outlast.store.store import Store
from outlast.testing import ManualClock
from tests.conformance.driver import Driver

SEAM = {
    "presence", "write_retries", "read", "read_long", "run_batch", "run_user_statements", "changes",
    "listen", "only_one", "is_somebodys", "sizes", "schema", "check", "flush", "step_aside",
    "before_close", "close", "quiesce", "resume", "abandon",
}  # fmt: skip
MOST_METHODS = 20

NOUNS = {
    "tasks": {"add", "get", "resolve"},
    "claims": {"claim"},
    "leases": {"settle", "renew"},
    "workers": {"beat", "leave"},
    "checkpoints": {"add", "of_task", "trim"},
    "keys": {"find", "purge"},
    "locks": {"acquire", "extend", "give_back"},
    "events": {"page", "begin_cursor", "move_cursor"},
    "metrics": {"fold"},
    "operators": {"operate", "audit"},
    "queues": {"pause", "unpause"},
    "figures": {"counts"},
    "runs": {"begin", "end"},
    "recovery": {"heal", "is_due"},
}


def _verbs(of: type) -> set[str]:
    return {name for name in dir(of) if not name.startswith("_")}


def _parameters(function: Any) -> list[tuple[str, Any, Any]]:
    found = inspect.signature(function).parameters.values()
    return [(one.name, one.kind, one.default) for one in found if one.name != "self"]


def test_the_seam_is_these_methods_and_stays_small() -> None:
    """Whoever writes another engine writes these; what is shared has no place among them."""
    assert _verbs(Engine) == SEAM
    assert len(SEAM) <= MOST_METHODS


@pytest.mark.parametrize("engine", [LookingEngine, ServingEngine])
def test_an_engine_implements_all_of_the_seam(engine: type) -> None:
    for name in SEAM - {"presence"}:
        promised, made = getattr(Engine, name), getattr(engine, name)
        if isinstance(promised, property):
            assert isinstance(made, property), name
        else:
            assert _parameters(made) == _parameters(promised), name


@pytest.mark.parametrize("is_serving", [True, False])
def test_an_engine_that_is_open_has_what_is_no_method_as_well(
    backend: Backend, tmp_path: Path, clock: ManualClock, is_serving: bool
) -> None:
    path = tmp_path / "work.db"
    serving = backend.serve(path, Settings(), clock.now())
    if not is_serving:
        backend.leave(serving, clock.now())
    store = serving if is_serving else backend.look(path, Settings())
    wanted = SEAM | set(Engine.__annotations__)
    assert [name for name in wanted if not hasattr(store.engine, name)] == []
    backend.leave(store, clock.now())


def _store_classes() -> Iterator[type]:
    for module in pkgutil.walk_packages(outlast.store.__path__, "outlast.store."):
        for found in vars(importlib.import_module(module.name)).values():
            if inspect.isclass(found) and found.__module__ == module.name:
                yield found


def _ours(of: type) -> list[type]:
    """A class and its ancestors in the store; a protocol is a promise and adds no depth."""
    return [
        one
        for one in of.__mro__
        if one.__module__.startswith("outlast.store.") and not getattr(one, "_is_protocol", False)
    ]


def test_no_class_of_the_store_is_more_than_two_deep() -> None:
    """Guards against a store that is made of mixins, where each verb has to be looked for."""
    found = list(_store_classes())
    assert {Store, ServingEngine, LookingEngine} <= set(found)
    assert [one for one in found if len(_ours(one)) > 2] == []
    assert _ours(Store) == [Store]


@pytest.mark.proves("API-06")
def test_a_store_has_these_nouns_with_their_verbs_healing_included(store: Store) -> None:
    kept = {name for name in vars(store) if not name.startswith("_")}
    assert kept == {"engine", "queue", *NOUNS}
    for noun, verbs in NOUNS.items():
        assert verbs <= _verbs(type(getattr(store, noun))), noun
    assert store.closed is False


@pytest.mark.proves("API-06")
def test_a_store_opened_to_look_answers_what_only_reads_and_refuses_the_rest(
    backend: Backend, tmp_path: Path, clock: ManualClock
) -> None:
    path = tmp_path / "work.db"
    serving = backend.serve(path, Settings(), clock.now())
    Driver(serving, clock).add("t1", payload=1)
    before = serving.tasks.get("t1")
    assert backend.leave(serving, clock.now()) is True
    looking = backend.look(path, Settings())
    assert looking.tasks.get("t1") == before
    writing = Driver(looking, clock)
    for act in (
        lambda: writing.add("t2"),
        writing.claim_one,
        lambda: looking.tasks.resolve("t1"),
        lambda: looking.keys.purge(clock.now(), 1),
        lambda: looking.flush_wal("passive"),
        lambda: looking.check(True),
    ):
        with pytest.raises(StoreError, match="opened only to look"):
            act()
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
    assert (again.figures.counts(None)["completed"], again.figures.counts(None)["pending"]) == (
        1,
        1,
    )
    task = again.tasks.get("t2")
    assert task is not None
    assert (task.attempt, task.payload) == (0, {"a": 1})
    backend.leave(again, clock.now())
