"""The clock of lives: it stands where it is set, so that two runs write the same rows."""

from outlast.testing.clock import ManualClock


class SetClock(ManualClock):
    """A clock that stands still, so many days after the first of all lives."""

    def __init__(self, days: int = 0) -> None:
        super().__init__()
        self.advance(days * 86_400)
