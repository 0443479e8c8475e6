"""Queues: pausing them, and which are paused."""

from outlast.clock import Instant
from outlast.domain.events import QUEUE_PAUSED, QUEUE_RESUMED
from outlast.domain.operator_acts import Signature
from outlast.store.access import Access
from outlast.store.ops import audit, stats
from outlast.store.ops.events import add_event
from outlast.store.ops.operators import why_of
from outlast.store.topics import LOOKING_FOR_WORK
from outlast.store.transaction import Transaction


class Queues:
    """Whether queues hand anything out."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def pause(self, queue: str, now: Instant, by: Signature | None = None) -> bool:
        """Hand out nothing from a queue; False when it was paused already."""
        return self._switch(queue, "pause", now, by)

    def unpause(self, queue: str, now: Instant, by: Signature | None = None) -> bool:
        """Hand out tasks of a queue again; False when it was not paused."""
        return self._switch(queue, "unpause", now, by)

    def _switch(self, queue: str, verb: str, now: Instant, by: Signature | None) -> bool:
        is_pause = verb == "pause"
        statement = "pause_queue" if is_pause else "unpause_queue"
        kind = QUEUE_PAUSED if is_pause else QUEUE_RESUMED

        def operation(tx: Transaction) -> bool:
            changed = tx.run(statement, {"queue": queue, "now": now.utc_ms}) == 1
            if changed:
                actor = {} if by is None else {"actor": by.actor}
                add_event(tx, kind, now, {"queue": queue} | actor)
            if changed and by is not None:
                act = audit.Act(by.actor, by.source, f"queue.{verb}", queue, why_of(by))
                audit.add_audit(tx, act, now)
            return changed

        return self._access.write("pause", operation, wakes=LOOKING_FOR_WORK)

    def is_paused(self, queue: str) -> bool:
        """Whether a queue is paused."""
        return queue in self.paused()

    def paused(self) -> list[str]:
        """The queues that hand out nothing, by name."""
        return self._access.read("reading queues", stats.paused)
