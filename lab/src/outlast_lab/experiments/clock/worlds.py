"""Worlds in which the clocks are wrong: other wall clocks, time namespaces, pids that come again.

The wall clock of a process is shifted by libfaketime, the monotonic one by a time namespace of the
kernel. Each is looked for where it is usually found; what is missing is told, never passed over.
"""

import glob
import importlib.util
import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from outlast_lab.stage.actors import Company, NoAnswer

FAKETIME_VARIABLE = "OUTLAST_LAB_FAKETIME"
_FAKETIME_PLACES = (
    "/usr/lib/*/faketime/libfaketime.so.1",
    "/usr/lib/faketime/libfaketime.so.1",
    "/usr/lib64/faketime/libfaketime.so.1",
    "/usr/local/lib/faketime/libfaketime.so.1",
)
_FAKETIME_IN_ITS_PACKAGE = "vendor/libfaketime/src/libfaketime.so.1"

HOUR_SECONDS = 3600
NIGHT_SECONDS = 8 * HOUR_SECONDS
_LARGEST_DIFFERENCE_SECONDS = 60.0


class Missing(Exception):
    """A means is not to be had on this machine; what, and how to get it."""


def faketime_library() -> str:
    """Where libfaketime is: as the environment says, as Debian has it, or as its wheel does."""
    named = os.environ.get(FAKETIME_VARIABLE)
    if named:
        return named
    for pattern in _FAKETIME_PLACES:
        for path in sorted(glob.glob(pattern)):
            return path
    spec = importlib.util.find_spec("libfaketime")
    if spec is not None and spec.origin is not None:
        path = os.path.join(os.path.dirname(spec.origin), _FAKETIME_IN_ITS_PACKAGE)
        if os.path.exists(path):
            return path
    raise Missing(
        "shifted wall clocks, for want of libfaketime: install the package faketime, or name the"
        f" library in {FAKETIME_VARIABLE}"
    )


@dataclass(slots=True)
class World:
    """How the clocks of a company's processes are shifted."""

    wall_seconds: float = 0.0
    monotonic_seconds: int = 0
    boottime_seconds: int = 0
    frozen_at: str | None = None
    has_own_pids: bool = False
    other_boot_id: str | None = None
    file: Path | None = field(default=None, init=False)

    def company(self, folder: Path, prelude: str = "") -> Company:
        """Processes that live in this world; raises Missing where it cannot be made."""
        prefix = self._prefix(folder)
        try:
            company = Company(prefix, self.environment(folder), prelude)
        except NoAnswer as error:
            raise Missing(f"{self}: {error}") from None
        for name, wanted in (
            ("wall", None if self.frozen_at else self.wall_seconds),
            ("monotonic", self.monotonic_seconds),
            ("boottime", self.boottime_seconds),
        ):
            if wanted is not None and not _is_shifted(company.clocks[name], name, wanted):
                company.close()
                raise Missing(f"{self}: the {name} clock of its processes was not shifted")
        return company

    def set_wall(self, offset: str) -> None:
        """Set the wall clock of all its processes, in the middle of whatever they do."""
        assert self.file is not None
        new = self.file.with_suffix(".new")
        new.write_text(f"{offset}\n", encoding="ascii")
        new.rename(self.file)

    def step_wall(self, seconds: float) -> None:
        """Set it to so many seconds away from the host's."""
        self.set_wall(f"{seconds:+.0f}")

    @property
    def is_faked(self) -> bool:
        """Whether its wall clock is not the host's."""
        return self.wall_seconds != 0 or self.frozen_at is not None

    def environment(self, folder: Path) -> Mapping[str, str]:
        """What gives a process the wall clock of this world; the file that sets it lies there."""
        if not self.is_faked:
            return {}
        library = faketime_library()
        self.file = folder / f"wall clock {time.monotonic_ns()}"
        if self.frozen_at is None:
            self.step_wall(self.wall_seconds)
        else:
            self.set_wall(self.frozen_at)
        return {
            "LD_PRELOAD": library,
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_NO_CACHE": "1",
            # Setting the clock of a machine does not touch what runs on since its start.
            "DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DISABLE_SHM": "1",
            "NO_FAKE_STAT": "1",
        }

    def _prefix(self, folder: Path) -> list[str]:
        options: list[str] = []
        if self.monotonic_seconds or self.boottime_seconds:
            options += ["--time", "--monotonic", str(self.monotonic_seconds)]
            options += ["--boottime", str(self.boottime_seconds)]
        if self.has_own_pids:
            options += ["--pid", "--fork", "--mount-proc", "--kill-child"]
        if self.other_boot_id is not None:
            options += ["--mount"]
        if not options:
            return []
        command = shutil.which("unshare")
        if command is None:
            raise Missing(f"{self}, for want of the command unshare of util-linux")
        namespaces = [command, *_as_root(command), *options, "--"]
        if self.other_boot_id is None:
            return namespaces
        file = folder / f"boot_id {self.other_boot_id}"
        file.write_text(f"{self.other_boot_id}\n", encoding="ascii")
        bind = 'mount --bind "$1" /proc/sys/kernel/random/boot_id && shift && exec "$@"'
        return [*namespaces, "sh", "-c", bind, "sh", str(file)]


def _as_root(command: str) -> list[str]:
    """What makes a namespace for a user who may not: one in which he is root."""
    may = subprocess.run(
        [command, "--time", "true"], capture_output=True, check=False, timeout=30
    ).returncode
    return [] if may == 0 else ["--user", "--map-root-user"]


def _is_shifted(shown: float, name: str, wanted: float) -> bool:
    clocks = {
        "wall": time.CLOCK_REALTIME,
        "monotonic": time.CLOCK_MONOTONIC,
        "boottime": getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC),
    }
    difference = shown - time.clock_gettime(clocks[name])
    return abs(difference - wanted) < _LARGEST_DIFFERENCE_SECONDS


def behind_seconds() -> int:
    """How far a monotonic clock can be set back here: never to before the machine began."""
    return min(HOUR_SECONDS, int(time.monotonic() / 2))
