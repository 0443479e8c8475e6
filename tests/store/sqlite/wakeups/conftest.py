"""What the tests of wake-ups are handed: a folder to wake by, and hints in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.store.sqlite.side_folder.side_folder import SideFolder
from outlast.store.sqlite.wakeups.notify import Wakeups
from tests.store.sqlite.wakeups.waking import make_folder


@pytest.fixture
def folder(database: Path) -> SideFolder:
    return make_folder(database)


@pytest.fixture
def wakeups(folder: SideFolder) -> Iterator[Wakeups]:
    wakeups = Wakeups(folder)
    yield wakeups
    wakeups.close()
