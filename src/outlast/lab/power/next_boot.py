"""What a power cut does to the host: another boot begins, and of what nobody synced anything stays.

The side folder with the lock files of workers is made for `kill -9` and is never synced. After a
power cut it may be there, gone, or there with files that are cut off or full of zeros. For child
processes only: what is set stays set.
"""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

from outlast import _host
from outlast.lab.lives import SetClock
from outlast.store.sqlite.lockfile import ProbedLock

HEADER_BYTES = 96
"""So much of a lock file says whose it is; what follows says which tasks it has begun."""

_DAYS_LATER = 4
_MONO_MS_AFTER_A_BOOT = 9_000
_LOCK = ".lock"


class BootClock(SetClock):
    """Days later by the calendar, and seconds after the boot."""

    def __init__(self, boot: int) -> None:
        super().__init__(_DAYS_LATER * boot)
        self._mono_ms = _MONO_MS_AFTER_A_BOOT


def begin_boot(boot: int) -> None:
    """From here on this process lives in another boot of the same host, with the same disk."""
    boot_id = f"00000000-0000-4000-8000-{boot:012}"
    vars(_host)["boot_id"] = lambda: boot_id
    probe = ProbedLock.__init__

    def probe_what_stayed(self: ProbedLock, path: Path, inode: int) -> None:
        # A file keeps its inode through a power cut; the copy that stands for it cannot.
        probe(self, path, path.stat().st_ino)

    type.__setattr__(ProbedLock, "__init__", probe_what_stayed)


def _without_notes(content: bytes) -> bytes:
    return content[:HEADER_BYTES] + bytes(max(0, len(content) - HEADER_BYTES))


_REMAINS: tuple[Callable[[bytes], bytes | None], ...] = (
    lambda content: content,
    lambda content: None,
    _without_notes,
    lambda content: bytes(len(content)),
    lambda content: content[: len(content) // 2],
    lambda content: b"",
)
"""What may stay of a file that nobody synced; the first is all of it."""


def lay_down_side(before: Path, at_the_end: Path, place: Path, chance: random.Random) -> None:
    """Make the side folder as a cut may have left it: whole, in part, or not at all.

    The lock files of those who were there before stand in `before`, and may have been removed
    since. Of the others nothing is taken that may have been written after the cut: only headers.
    """
    is_there = chance.random() < 0.75
    old, new = chance.choice(_REMAINS), chance.choice(_REMAINS[1:])
    if not is_there:
        return
    old_files, new_files = _files(before), _files(at_the_end)
    for name in {**new_files, **old_files}:
        file, remains = (old_files[name], old) if name in old_files else (new_files[name], new)
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        if file.suffix != _LOCK:
            shutil.copyfile(file, place / name)
        elif (content := remains(file.read_bytes())) is not None:
            (place / name).write_bytes(content)


def _files(folder: Path) -> dict[Path, Path]:
    """The files below a folder by their relative names; sockets are none."""
    return {file.relative_to(folder): file for file in folder.rglob("*") if file.is_file()}
