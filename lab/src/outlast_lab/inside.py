"""The one door to the store behind an `Outlast`, for what its public verbs do not reach."""

# ruff: noqa: SLF001 - the laboratory looks inside

from typing import TYPE_CHECKING

from outlast.maintenance.loop import MaintenanceLoop
from outlast.store.store import Store

if TYPE_CHECKING:
    from outlast.app.app import Outlast


def store_of(app: "Outlast") -> "Store":
    """The store behind an Outlast, opened to serve."""
    return app._handle.serve().store


def operations_waiting(app: "Outlast") -> int:
    """How many operations wait to share the next transaction."""
    return len(store_of(app).tasks._access.queue.shared)


def look_for_the_dead(app: "Outlast") -> bool:
    """One look of a detector, in the caller's thread; False if it was skipped."""
    return MaintenanceLoop(app._handle.serve(), clock=lambda: 0.0).tick()
