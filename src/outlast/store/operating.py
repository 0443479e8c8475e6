"""What a store can be asked of operators' acts: to do them on record, and to show the record."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from outlast.clock import Instant
from outlast.domain.lifecycle import Parked
from outlast.domain.operator_acts import Act, AuditRecord, Signature
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


class AuditReads(Protocol):
    """The record of who did what."""

    def audit(self, after: int, limit: int, is_newest: bool) -> list[AuditRecord]:
        """Acts behind a number, oldest first; or the newest of them."""
        ...

    def audit_items(self, after: int, limit: int, is_newest: bool) -> list[AuditRecord]:
        """The same item by item: each task and lock that was moved by anyone but its holder."""
        ...

    def held_ids(self, limit: int) -> list[str]:
        """Tasks that recovery put back and that wait for approval, oldest first."""
        ...


class StoreActs(AuditReads, Protocol):
    """Acts of operators, each in one transaction with its record."""

    def operate(
        self, orders: Sequence[Order], by: Signature, now: Instant, scope: str | None = None
    ) -> list[Done]:
        """Carry out orders: all that can be, together, with one entry in the record."""
        ...

    def pause(self, queue: str, now: Instant, by: Signature | None = None) -> bool:
        """Hand out nothing from a queue."""
        ...

    def unpause(self, queue: str, now: Instant, by: Signature | None = None) -> bool:
        """Hand out tasks of a queue again."""
        ...
