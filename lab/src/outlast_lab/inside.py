"""The one door to the store behind an `Outlast`, for what its public verbs do not reach."""

# ruff: noqa: SLF001 - the laboratory looks inside

from typing import TYPE_CHECKING, cast

from outlast.maintenance.loop import Detector

if TYPE_CHECKING:
    from outlast.app.app import Outlast
    from outlast.store.sqlite.store import SqliteStore


def store_of(app: "Outlast") -> "SqliteStore":
    """The store behind an Outlast, opened to serve."""
    return cast("SqliteStore", app._handle.serve().store)


def operations_waiting(app: "Outlast") -> int:
    """How many operations wait to share the next transaction."""
    return len(store_of(app)._queue.shared)


def look_for_the_dead(app: "Outlast") -> bool:
    """One look of a detector, in the caller's thread; False if it was skipped."""
    return Detector(app._handle.serve(), clock=lambda: 0.0).tick()
