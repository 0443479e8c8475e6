"""What tests of locks ask for: the events a store has seen, and a hand with a SQL prompt."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.locks.telling import Told, told
from tests.store.hand import Hand


@pytest.fixture
def hand(database: Path) -> Iterator[Hand]:
    found = Hand(database)
    yield found
    found.close()


@pytest.fixture
def events(database: Path) -> Callable[[], list[Told]]:
    """What the stream says of locks, read by a foreign tool."""
    return lambda: told(database)
