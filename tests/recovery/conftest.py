"""What the tests of recovery share: a store that was left by a crash."""

from pathlib import Path

import pytest

from outlast import Outlast
from tests.recovery.stage import crash


@pytest.fixture
def crashed(app: Outlast, database: Path) -> Path:
    """A store with two orphans of a worker that was killed; nobody has it open."""
    app.enqueue_many("work", [1, 2], id=["a", "b"])
    app.close()
    assert crash(database) == ["a", "b"]
    return database
