"""A lease in the hands of its worker: every write it makes carries its proof of ownership."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from outlast.clock import Instant
from outlast.domain import codec
from outlast.domain.duration import Duration
from outlast.domain.lifecycle import Parked
from outlast.domain.task import Checkpoint, utc
from outlast.errors import InvalidInput
from outlast.store.future import Future
from outlast.store.records import Claimed, Grant, Statement
from outlast.store.session import Session
from outlast.tasks import checkpoint, settle

Renewed = Callable[[], None]


class Lease:
    """Time-limited ownership of one task."""

    __slots__ = ("_claimed", "_renewed_at_ms", "_session")

    def __init__(self, session: Session, claimed: Claimed, claimed_at: Instant) -> None:
        self._session = session
        self._claimed = claimed
        self._renewed_at_ms = claimed_at.utc_ms

    def __repr__(self) -> str:
        """Names the task and never its payload."""
        return f"<Lease of task {self.task_id} ({self.kind}), token {self.token}>"

    @property
    def grant(self) -> Grant:
        """The proof of ownership: row, holder, token."""
        return self._claimed.grant

    @property
    def claimed(self) -> Claimed:
        """The record behind this lease."""
        return self._claimed

    @property
    def session(self) -> Session:
        """The opening this lease was handed out by."""
        return self._session

    @property
    def task_id(self) -> str:
        """The task's id."""
        return self._claimed.task_id

    @property
    def token(self) -> int:
        """The fencing token: higher than that of any earlier lease on this task."""
        return self._claimed.grant.token

    @property
    def kind(self) -> str:
        """The task's kind."""
        return self._claimed.kind

    @property
    def queue(self) -> str:
        """The queue the task came from."""
        return self._claimed.queue

    @property
    def group(self) -> str | None:
        """The task's group."""
        return self._claimed.group

    @property
    def attempt(self) -> int:
        """Which execution of the task this is, from 1."""
        return self._claimed.attempt

    @property
    def lease_ms(self) -> int:
        """How far each renewal pushes the lease out."""
        return self._claimed.lease_ms

    @property
    def expires_at(self) -> datetime | None:
        """When the lease runs out unless it is renewed, as far as this object knows."""
        return utc(self._renewed_at_ms + self._claimed.lease_ms)

    @property
    def payload(self) -> Any:
        """The task's payload, decoded afresh at each access."""
        text = self._claimed.payload
        return None if text is None else codec.decode(text)

    def start(self) -> None:
        """Note that the work of a prefetched task begins now, so that a crash is charged to it."""
        settle.start(self._session, self._claimed)

    def renew(self, *, stage: str | None = None) -> None:
        """Push the lease out by its length from now; LeaseLost if it is no longer ours."""
        self.renew_soon(stage).result()

    def renew_soon(self, stage: str | None = None) -> Future[None]:
        """The same as a future."""
        now = self._session.now()

        def finish(renewed: Renewed) -> None:
            renewed()
            self._renewed_at_ms = now.utc_ms

        return settle.renew(self._session, self._claimed, now, stage).then(finish)

    def complete(self, result: Any = None, also: Sequence[Statement] = ()) -> bool:
        """Store the result and finish the task; `also` commits together with it."""
        return settle.complete(self._session, self._claimed, result, also).result()

    def fail(
        self, error: str | BaseException, retry: bool = True, delay: Duration | None = None
    ) -> bool:
        """Record a failure: back for another try while the budget lasts, else failed for good."""
        return settle.fail(self._session, self._claimed, error, retry, delay).result()

    def release(self, delay: Duration | None = None) -> bool:
        """Hand the task back unspent, perhaps not before some time has passed."""
        return settle.release(self._session, self._claimed, delay).result()

    def park(self, reason: Parked | str, delay: Duration | None = None) -> bool:
        """Hand the task back to wait for something; unspent, and not claimable meanwhile."""
        return settle.park(self._session, self._claimed, reason, delay).result()

    def checkpoint(self, type: str, data: Any, metadata: Any = None) -> Checkpoint:
        """Append a record of progress that survives a crash."""
        return checkpoint.add(self._session, self._claimed, type, data, metadata).result()


_PAIRS = "complete_many takes (lease, result) pairs, with leases that claim returned"


def ended_leases(
    session: Session, pairs: Iterable[tuple[Lease, Any]]
) -> list[tuple[Session, Claimed, Any]]:
    """The leases and results that complete_many was given, checked before anything is written."""
    if not isinstance(pairs, Iterable):
        raise InvalidInput(_PAIRS)
    given = list(pairs)
    if not all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in given):
        raise InvalidInput(_PAIRS)
    if not all(isinstance(lease, Lease) for lease, _ in given):
        raise InvalidInput(_PAIRS)
    ended = [(lease.session, lease.claimed, result) for lease, result in given]
    if any(of is not session and not of.is_over() for of, _, _ in ended):
        raise InvalidInput("complete_many takes leases that this very object handed out")
    return ended
