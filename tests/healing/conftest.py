"""What the tests of healing are handed: a hand with a SQL prompt on their store."""

from collections.abc import Iterator

import pytest

from outlast import Outlast
from tests.store.hand import Hand


@pytest.fixture
def hand(app: Outlast) -> Iterator[Hand]:
    app.open()
    made = Hand(app.path)
    yield made
    made.close()
