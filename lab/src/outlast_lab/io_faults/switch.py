"""Counts the calls of a life as they are made, and says which of them is to fail."""

import threading
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from outlast_lab.io_faults.faults import Fault


class Counted(NamedTuple):
    """A call that a life makes: the nth of its kind, and the operation it was made for."""

    call: str
    nth: int
    operation: str


class Switch:
    """Every layer of faults asks here; off, it says that nothing fails and counts nothing."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._is_on = False
        self._fault: Fault | None = None
        self._operation: Callable[[], str] = str
        self._counts: Counter[str] = Counter()
        self.counted: list[Counted] = []
        self.struck_in: list[str] = []
        """The operations in which the fault was met."""

    def turn_on(self, fault: Fault | None, operation: Callable[[], str]) -> None:
        """Count from now on, and let this fault happen; `operation` says what is under way."""
        self._fault, self._operation, self._is_on = fault, operation, True

    def turn_off(self) -> None:
        """The fault is gone."""
        self._is_on = False

    def meet(self, call: str) -> str | None:
        """A call is about to be made: how it fails, or None when it does not."""
        if not self._is_on:
            return None
        with self._mutex:
            self._counts[call] += 1
            nth, fault = self._counts[call], self._fault
            if fault is None:
                self.counted.append(Counted(call, nth, self._operation()))
            elif fault.strikes(call, nth, bool(self.struck_in)):
                self.struck_in.append(self._operation())
                return fault.how
        return None


switch = Switch()
"""One for a process: what it stands between, SQLite and the kernel, is one for a process too."""
