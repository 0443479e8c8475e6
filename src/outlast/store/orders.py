"""What people order done to tasks, on its way into the store, and what came of it."""

from typing import NamedTuple

from outlast.domain.lifecycle import Parked
from outlast.domain.operator_acts import Act
from outlast.errors import OutlastError
from outlast.store.new_tasks import NewTask


class Order(NamedTuple):
    """One act on one task; a final one is run anew as its clone."""

    task_id: str
    act: Act
    parked: Parked = Parked.HOLD
    clone: NewTask | None = None


class Done(NamedTuple):
    """What came of an order; `error` if the task had to be left as it is."""

    task_id: str
    was: str
    became: str
    is_changed: bool
    new_id: str | None = None
    error: OutlastError | None = None
