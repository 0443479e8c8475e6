"""Maintenance job: sums up what metrics count, so that a reader finds few rows left to add."""

from collections.abc import Callable

from outlast.store.session import Session


def run(session: Session, goes_on: Callable[[], bool]) -> None:
    """Sum up in short transactions, as long as the loop goes on."""
    session.store.metrics.fold(goes_on=goes_on)
