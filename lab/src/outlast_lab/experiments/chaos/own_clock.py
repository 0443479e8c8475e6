"""A wall clock of a round's own, which jumps while everybody stands still, as in a suspend."""

from collections.abc import Mapping
from pathlib import Path

from outlast_lab.experiments.chaos.programs import NIGHT_SECONDS
from outlast_lab.experiments.clock.worlds import World


class OwnClock:
    """Set by the supervisor; the monotonic clock goes on as it does. Raises Missing if there is
    nothing to set it by."""

    def __init__(self, folder: Path) -> None:
        self._world = World(wall_seconds=1)
        self._ahead_seconds = 1.0
        self.environment: Mapping[str, str] = self._world.environment(folder)

    def jump(self) -> None:
        """A night has passed."""
        self._ahead_seconds += NIGHT_SECONDS
        self._world.step_wall(self._ahead_seconds)
