"""Workers run on the machine's own clock, with a store process beside them, unless a test asks for
the clock that stands still."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from outlast import Outlast, Settings

MakeApp = Callable[..., Outlast]


@pytest.fixture
def make_live(database: Path) -> Iterator[MakeApp]:
    """Makes Outlast objects on the test's file and the machine's clock, and closes them all."""
    made: list[Outlast] = []

    def make(**settings: object) -> Outlast:
        app = Outlast(database, settings=Settings(**settings))  # type: ignore[arg-type]
        made.append(app)
        return app

    yield make
    for app in made:
        app.close()


@pytest.fixture
def live(make_live: MakeApp) -> Outlast:
    return make_live()
