"""The two budgets of a task (failures and crashes) and the waits between its retries."""

from typing import NamedTuple


def attempt_limit(max_retries: int, max_recoveries: int) -> int:
    """How many executions both budgets together allow."""
    return 1 + max_retries + max_recoveries


def attempts_spent(attempt: int, max_retries: int, max_recoveries: int) -> bool:
    """Whether a pending task has no execution left, however it came to that."""
    return attempt >= attempt_limit(max_retries, max_recoveries)


class Backoff(NamedTuple):
    """Doubling waits between retries: half of each is fixed, half is spread by jitter."""

    first_ms: int
    cap_ms: int

    def delay_ms(self, retries_so_far: int, jitter: float) -> int:
        """The wait before the next retry; jitter runs from 0 (half the wait) to 1 (all of it)."""
        full_ms = min(self.cap_ms, self.first_ms << min(retries_so_far, 40))
        return round(full_ms * (0.5 + 0.5 * jitter))


NO_BACKOFF = Backoff(0, 0)
