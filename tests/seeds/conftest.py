"""What the tests of the seeds' words share: a hand with a SQL prompt on the store's file."""

from collections.abc import Iterator

import pytest

from outlast import Outlast
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
