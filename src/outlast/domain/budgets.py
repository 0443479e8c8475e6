"""The two budgets of a task (failures and crashes) and the waits between its retries."""

from typing import NamedTuple

from outlast.domain.names import checked_whole

MOST_RETRIES = 1_000_000
MOST_RECOVERIES = 100
"""However much progress a task makes in between, it is taken back no more often than this."""


USUAL_RECOVERIES = 3
"""How many crashes in a row are taken back where nobody says otherwise."""


def recovery_limit(own: int | None, policys: int) -> int:
    """How many crashes in a row are taken back of a task: its own word counts first."""
    return policys if own is None else own


def budget_is_spent(crashes_in_row: int, max_recoveries: int | None) -> bool:
    """Whether a pending task has no execution left, however it came to that."""
    return max_recoveries is not None and crashes_in_row > max_recoveries


def checked_budget(value: object, what: str, most: int) -> int | None:
    """How often something may happen to a task; None leaves it to the settings."""
    return None if value is None else checked_whole(value, what, 0, most)


class Backoff(NamedTuple):
    """Doubling waits between retries: half of each is fixed, half is spread by jitter."""

    first_ms: int
    cap_ms: int

    def delay_ms(self, retries_so_far: int, jitter: float) -> int:
        """The wait before the next retry; jitter runs from 0 (half the wait) to 1 (all of it)."""
        full_ms = min(self.cap_ms, self.first_ms << min(retries_so_far, 40))
        return round(full_ms * (0.5 + 0.5 * jitter))


NO_BACKOFF = Backoff(0, 0)
