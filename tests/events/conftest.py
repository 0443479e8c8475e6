"""Readers of the stream: what they were told, in the order they were told it."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from outlast import Event

DEADLINE_SECONDS = 60


class Listener:
    """A subscriber's function that remembers, and may be told to hold still or to fail."""

    def __init__(self) -> None:
        self.told: list[Event] = []
        self.entered = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()
        self.fails: Callable[[Event], bool] = lambda event: False
        self.failures = 0

    def __call__(self, event: Event) -> None:
        self.entered.set()
        assert self.go_on.wait(DEADLINE_SECONDS)
        if self.fails(event):
            self.failures += 1
            raise OSError("the alarm bell is broken")
        self.told.append(event)

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.told]


@pytest.fixture
def listener() -> Listener:
    return Listener()


def short(events: list[Event]) -> list[Any]:
    """Events as kind and task, for comparing."""
    return [(event.kind, event.task_id) for event in events]


def wait_until(holds: Callable[[], bool]) -> None:
    """Look again and again until something holds, which it must before long."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)
