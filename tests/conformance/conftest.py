"""The backends that must all behave alike. These tests speak to the Store protocol alone."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from outlast import Settings
from outlast.store.opening import Backend, registry
from outlast.store.store import Store
from outlast.testing import ManualClock
from tests.conformance.driver import Driver

BACKENDS: dict[str, Backend] = {"sqlite": registry}


@pytest.fixture(params=sorted(BACKENDS))
def backend(request: pytest.FixtureRequest) -> Backend:
    return BACKENDS[request.param]


@pytest.fixture
def open_store(
    backend: Backend, tmp_path: Path, clock: ManualClock
) -> Iterator[Callable[[], Store]]:
    """Opens the test's store to serve; what was opened is left again at the end."""
    opened: list[Store] = []

    def open_it() -> Store:
        store = backend.serve(tmp_path / "work.db", Settings(), clock.now())
        opened.append(store)
        return store

    yield open_it
    for store in opened:
        backend.leave(store, clock.now())


@pytest.fixture
def store(open_store: Callable[[], Store]) -> Store:
    return open_store()


@pytest.fixture
def driver(store: Store, clock: ManualClock) -> Driver:
    return Driver(store, clock)
