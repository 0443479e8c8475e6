"""Coroutines run by asyncio.run inside plain tests; an AsyncOutlast belongs to no loop."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from outlast import AsyncOutlast, Settings
from outlast.testing import ManualClock


@pytest.fixture
def make_aio(database: Path, clock: ManualClock) -> Iterator[Callable[..., AsyncOutlast]]:
    """Makes AsyncOutlast objects on the test's file and the test's clock, and closes them all."""
    made: list[AsyncOutlast] = []

    def make(**settings: object) -> AsyncOutlast:
        app = AsyncOutlast(database, settings=Settings(**settings), clock=clock)  # type: ignore[arg-type]
        made.append(app)
        return app

    yield make
    for app in made:
        asyncio.run(app.close())


@pytest.fixture
def aio(make_aio: Callable[..., AsyncOutlast]) -> AsyncOutlast:
    return make_aio()
