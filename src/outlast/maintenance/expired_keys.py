"""Maintenance job: deletes expired idempotency keys, once when a process begins to serve."""

from collections.abc import Callable

from outlast.store.session import Session

KEYS_PURGED_AT_ONCE = 500


def run(session: Session, goes_on: Callable[[], bool]) -> None:
    """Delete a batch of expired keys, if a read finds any."""
    session.store.keys.purge(session.now(), KEYS_PURGED_AT_ONCE, looks_first=True)


def purge(session: Session) -> None:
    """Delete a batch of expired keys; for a process that runs no maintenance loop."""
    session.store.keys.purge(session.now(), KEYS_PURGED_AT_ONCE, looks_first=False)
