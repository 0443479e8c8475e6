"""Calls that share one transaction: held back until all of them wait, then let go together."""

import threading
import time
from collections.abc import Callable
from typing import Any

from outlast.host import probe_points
from outlast_lab.inside import operations_waiting
from outlast_lab.witness import Witness

PATIENCE_SECONDS = 60


def in_one_group(one: Witness, first: str, *calls: Callable[[], Any]) -> None:
    """Make calls from a thread each, so that they share a transaction, in their order.

    An enqueue of `first` is held inside its own transaction until all of them are queued.
    """
    inside, queued = threading.Event(), threading.Event()
    armed = probe_points.armed()

    def hold_the_first(name: str) -> None:
        if armed is not None:
            armed(name)
        if name == "enqueue.begun" and not inside.is_set():
            inside.set()
            queued.wait(PATIENCE_SECONDS)

    probe_points.arm(hold_the_first)
    try:
        leader = threading.Thread(target=lambda: one.enqueue(first), daemon=True)
        leader.start()
        # A fault may refuse the first one, and then nobody is held.
        await_that(lambda: inside.is_set() or not leader.is_alive())
        inside.set()
        threads = [leader]
        for call in calls:
            threads.append(threading.Thread(target=call, daemon=True))
            threads[-1].start()
            await_that(lambda: _all_are_queued(one, threads[1:]))
        queued.set()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
    finally:
        queued.set()
        probe_points.arm(armed)


def _all_are_queued(one: Witness, threads: list[threading.Thread]) -> bool:
    """Whether each call waits that is not over yet: for want of a lease some are never made."""
    alive = sum(thread.is_alive() for thread in threads)
    return not threads[-1].is_alive() or operations_waiting(one.app) >= alive


def await_that(holds: Callable[[], bool]) -> None:
    """Wait until something is so; what never comes to be is left to the judge."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.0005)
