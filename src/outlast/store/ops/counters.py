"""What a process counts because no row shows it, until it is stored with something else."""

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from outlast.domain.metric_marks import BUSY_RETRIES
from outlast.errors import OutcomeUnknown
from outlast.store.sqlite.transaction import Transaction


class Counts:
    """Numbers of this process that are not stored yet; those of its last seconds die with it."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._unstored: Counter[str] = Counter()
        self._retries = 0

    def add(self, name: str, by: int) -> None:
        """Count something."""
        if by > 0:
            with self._mutex:
                self._unstored[name] += by

    @contextmanager
    def being_stored(self, retries: int) -> Iterator[dict[str, int]]:
        """All that is to be stored inside this block, which raises if it was not.

        `retries` is how many there were since the beginning. What may have been stored is not
        counted again: a number that is a little low is better than one that is too high.
        """
        numbers = self._take(retries)
        try:
            yield numbers
        except OutcomeUnknown:
            raise
        except BaseException:
            with self._mutex:
                self._unstored.update(numbers)
            raise

    def _take(self, retries: int) -> dict[str, int]:
        with self._mutex:
            # Less than before: the connection that knew of the others was replaced.
            self._unstored[BUSY_RETRIES] += max(0, retries - self._retries)
            self._retries = retries
            numbers = dict(+self._unstored)
            self._unstored.clear()
            return numbers


def add_to_counters(tx: Transaction, numbers: Mapping[str, int]) -> None:
    """Raise the stored counters."""
    if numbers:
        values = [{"name": name, "by": by} for name, by in numbers.items()]
        tx.run_many("add_to_counter", values)
