"""What a power cut does to the host: another boot begins, and of what nobody synced anything stays.

The side folder with the lock files of workers is made for `kill -9` and is never synced. After a
power cut it may be there, gone, or there with files that are cut off or full of zeros. For child
processes only: what is set stays set.
"""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

from outlast.clock import Instant
from outlast.host import boot
from outlast.store.sqlite.presence.worker_lock_file import LockFiles, ProbedLock
from outlast_lab.record.set_clock import SetClock
from outlast_lab.stage import session_markers

HEADER_BYTES = 96
"""So much of a lock file says whose it is; what follows says which tasks it has begun."""

_DAYS_LATER = 4
_MONO_MS_AFTER_A_BOOT = 9_000
_LOCK = ".lock"
_IS_THERE = 0.8


class BootClock:
    """Days later by the calendar, and seconds after the boot."""

    def __init__(self, boot: int) -> None:
        self.of_all_boots = SetClock(_DAYS_LATER * boot)
        """One that power cannot stop: by it whoever writes the history down compares moments."""
        self._booted_at_ms = self.of_all_boots.now().mono_ms - _MONO_MS_AFTER_A_BOOT

    def now(self) -> Instant:
        """The moment as the host sees it."""
        now = self.of_all_boots.now()
        return Instant(now.utc_ms, now.mono_ms - self._booted_at_ms)


def begin_boot(number: int) -> None:
    """From here on this process lives in another boot of the same host, with the same disk."""
    boot_id = f"00000000-0000-4000-8000-{number:012}"
    vars(boot)["boot_id"] = lambda: boot_id
    probe = ProbedLock.__init__

    def probe_what_stayed(
        self: ProbedLock, files: LockFiles, name: str, inode: int | None = None
    ) -> None:
        # A file keeps its inode through a power cut; the copy that stands for it cannot.
        probe(self, files, name)

    type.__setattr__(ProbedLock, "__init__", probe_what_stayed)


def _without_notes(content: bytes) -> bytes:
    return content[:HEADER_BYTES] + bytes(max(0, len(content) - HEADER_BYTES))


_REMAINS: tuple[Callable[[bytes], bytes | None], ...] = (
    lambda content: content,
    _without_notes,
    lambda content: None,
    lambda content: bytes(len(content)),
    lambda content: content[: len(content) // 2],
    lambda content: b"",
)
"""What may stay of a file that nobody synced, all of it first."""


def lay_down_side(before: Path, at_the_end: Path, place: Path, chance: random.Random) -> None:
    """Make the side folder as a cut may have left it: whole, in part, or not at all.

    The lock files of those who were there before stand in `before`, and may have been removed
    since. Of the others nothing is taken that may have been written after the cut: only headers.
    Session markers may be as they like, whenever they were set: they decide nothing.
    """
    is_there = chance.random() < _IS_THERE
    old, new = chance.choice(_REMAINS), chance.choice(_REMAINS[1:])
    if not is_there:
        return
    old_files, new_files = _files(before), _files(at_the_end)
    for name in {**new_files, **old_files}:
        file, remains = (old_files[name], old) if name in old_files else (new_files[name], new)
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == session_markers.SUFFIX:
            remains = chance.choice(session_markers.REMAINS)
        elif file.suffix != _LOCK:
            shutil.copyfile(file, place / name)
            continue
        if (content := remains(file.read_bytes())) is not None:
            (place / name).write_bytes(content)


def _files(folder: Path) -> dict[Path, Path]:
    """The files below a folder by their relative names; sockets are none."""
    return {file.relative_to(folder): file for file in folder.rglob("*") if file.is_file()}
