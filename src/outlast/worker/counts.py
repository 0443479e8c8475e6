"""What a worker has done so far, in figures."""

from dataclasses import dataclass

from outlast.domain.lifecycle import Outcome


@dataclass(slots=True)
class Tally:
    """Counted when it is committed; `failed` counts attempts, be they tried again or not."""

    completed: int = 0
    failed: int = 0
    released: int = 0
    lost: int = 0

    def count(self, outcome: Outcome) -> None:
        """One more lease has ended."""
        if outcome is Outcome.COMPLETE:
            self.completed += 1
        elif outcome is Outcome.FAIL:
            self.failed += 1
        else:
            self.released += 1
