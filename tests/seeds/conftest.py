"""What the tests of the seeds' words share: a hand with a SQL prompt on the store's file."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast import Outlast
from tests.seeds.sample import crashed_store
from tests.store.hand import Hand
from tests.store.trace import Trace


@pytest.fixture
def hand(app: Outlast) -> Iterator[Hand]:
    app.open()
    made = Hand(app.path)
    yield made
    made.close()


@pytest.fixture
def trace(monkeypatch: pytest.MonkeyPatch) -> Trace:
    """To be asked for before the store is opened."""
    return Trace(monkeypatch)


@pytest.fixture(scope="session")
def sample_crash(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of acode's sample report at the moment of its crash; only to be copied."""
    return crashed_store(tmp_path_factory.mktemp("crashed"))
