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


@pytest.fixture
def shop(app: Outlast, hand: Hand) -> Hand:
    """Tables of the caller's, with traps in them, and a task to lose."""
    hand.run("CREATE TABLE orders (number INTEGER PRIMARY KEY, note TEXT)")
    hand.run("CREATE TABLE sneaky (a)")
    hand.run("CREATE TRIGGER creep AFTER INSERT ON sneaky BEGIN UPDATE tasks SET priority = 9; END")
    hand.run("CREATE VIEW my_tasks AS SELECT * FROM tasks")
    hand.run(
        "CREATE TRIGGER through INSTEAD OF UPDATE ON my_tasks"
        " BEGIN UPDATE tasks SET priority = new.priority; END"
    )
    app.enqueue("k", id="victim", queue="elsewhere", idempotency_key="key")
    return hand
