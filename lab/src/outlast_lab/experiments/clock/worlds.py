"""Worlds in which the clocks are wrong: other wall clocks, time namespaces, pids that come again.

The wall clock of a process is a file's, see `wall_clock`; the monotonic one is shifted by a time
namespace of the kernel. What this machine cannot do is told, never passed over.
"""

import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from outlast_lab.experiments.clock.wall_clock import WallClock
from outlast_lab.stage.actors import Company, NoAnswer

HOUR_SECONDS = 3600
NIGHT_SECONDS = 8 * HOUR_SECONDS
_LARGEST_DIFFERENCE_SECONDS = 60.0


class Missing(Exception):
    """A means is not to be had on this machine; what, and how to get it."""


@dataclass(slots=True)
class World:
    """How the clocks of a company's processes are shifted."""

    wall_seconds: float = 0.0
    monotonic_seconds: int = 0
    boottime_seconds: int = 0
    stands_at: int | None = None
    """Where the wall clock stands still, in seconds since 1970."""
    has_own_pids: bool = False
    other_boot_id: str | None = None
    _wall_clock: WallClock | None = field(default=None, init=False)

    def company(self, folder: Path, prelude: str = "") -> Company:
        """Processes that live in this world; raises Missing where it cannot be made."""
        prefix = self._prefix(folder)
        try:
            company = Company(prefix, self.environment(folder), prelude)
        except NoAnswer as error:
            raise Missing(f"{self}: {error}") from None
        for name, wanted in self._expected().items():
            if abs(company.clocks[name] - wanted) > _LARGEST_DIFFERENCE_SECONDS:
                company.close()
                raise Missing(f"{self}: the {name} clock of its processes was not shifted")
        return company

    def _expected(self) -> dict[str, float]:
        boottime = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
        wall = time.time() + self.wall_seconds if self.stands_at is None else self.stands_at
        return {
            "wall": wall,
            "monotonic": time.monotonic() + self.monotonic_seconds,
            "boottime": time.clock_gettime(boottime) + self.boottime_seconds,
        }

    def step_wall(self, seconds: float) -> None:
        """Set the wall clock of all its processes to so many seconds away from the host's."""
        assert self._wall_clock is not None
        self._wall_clock.step(seconds)

    @property
    def has_own_wall_clock(self) -> bool:
        """Whether its wall clock is not the host's."""
        return self.wall_seconds != 0 or self.stands_at is not None

    def environment(self, folder: Path) -> Mapping[str, str]:
        """What gives a process the wall clock of this world; what sets it lies in the folder."""
        if not self.has_own_wall_clock:
            return {}
        self._wall_clock = WallClock(
            folder, ahead_seconds=self.wall_seconds, stands_at=self.stands_at
        )
        return self._wall_clock.environment

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


def behind_seconds() -> int:
    """How far a monotonic clock can be set back here: never to before the machine began."""
    return min(HOUR_SECONDS, int(time.monotonic() / 2))
