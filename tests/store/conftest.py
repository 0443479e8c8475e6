"""What the tests of the SQLite store share: a hand with a SQL prompt on the store's own file."""

from collections.abc import Iterator

import pytest

from outlast import Outlast
from tests.store.golden import apply_migrations
from tests.store.hand import Hand
from tests.store.trace import Trace


@pytest.fixture
def hand(app: Outlast) -> Iterator[Hand]:
    app.open()
    made = Hand(app.path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def blank() -> Iterator[Hand]:
    """The schema alone, in memory: for questions about statements, not about rows."""
    made = Hand(":memory:")
    apply_migrations(made.connection)
    yield made
    made.close()


@pytest.fixture
def trace(monkeypatch: pytest.MonkeyPatch) -> Trace:
    """To be asked for before the store is opened."""
    return Trace(monkeypatch)
