"""What the tests of wake-ups share."""

import os
import time
from collections.abc import Callable
from pathlib import Path

from outlast.store.sqlite.side_folder.side_folder import SideFolder
from outlast.store.topics import Topic

WORK, DONE = frozenset({Topic.WORK}), frozenset({Topic.DONE})

# Hints arrive within milliseconds; only a test that fails waits as long as this.
SOON_SECONDS = 60.0


def make_folder(database: Path) -> SideFolder:
    database.parent.mkdir(parents=True, exist_ok=True)
    database.touch(mode=0o600)
    folder = SideFolder(database)
    folder.make()
    return folder


def sockets_in(folder: SideFolder) -> list[str]:
    return sorted(os.listdir(folder.wake))


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SOON_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.001)
