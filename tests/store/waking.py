"""What the tests of wake-ups share."""

import os
from pathlib import Path

from outlast.store.sqlite.files import SideFolder
from outlast.store.sqlite.wake import Topic

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
