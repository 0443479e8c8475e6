"""What every test may ask for: a store of its own, and a clock that moves only when told."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from outlast import Outlast, Settings
from outlast.testing import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "work.db"


@pytest.fixture
def make_app(database: Path, clock: ManualClock) -> Iterator[Callable[..., Outlast]]:
    """Makes Outlast objects on the test's file and the test's clock, and closes them all.

    Nobody looks for the dead unasked: the kernel would tell of them when it pleases.
    """
    made: list[Outlast] = []

    def make(**settings: object) -> Outlast:
        given = Settings(**{"detection_interval_seconds": 0} | settings)  # type: ignore[arg-type]
        app = Outlast(database, settings=given, clock=clock)
        made.append(app)
        return app

    yield make
    for app in made:
        app.close()


@pytest.fixture
def app(make_app: Callable[..., Outlast]) -> Outlast:
    return make_app()
