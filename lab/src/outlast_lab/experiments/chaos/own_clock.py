"""A wall clock of a round's own, which jumps while everybody stands still, as in a suspend."""

from collections.abc import Mapping
from pathlib import Path

from outlast_lab.experiments.chaos.programs import NIGHT_SECONDS
from outlast_lab.experiments.clock.wall_clock import WallClock


class OwnClock:
    """Set by the supervisor; the monotonic clock goes on as it does."""

    def __init__(self, folder: Path) -> None:
        self._wall_clock = WallClock(folder)
        self._ahead_seconds = 0.0
        self.environment: Mapping[str, str] = self._wall_clock.environment

    def jump(self) -> None:
        """A night has passed."""
        self._ahead_seconds += NIGHT_SECONDS
        self._wall_clock.step(self._ahead_seconds)
