"""The Store protocol with the test's clock and plain defaults filled in."""

from typing import Any, NamedTuple

from outlast import Task
from outlast.domain import codec
from outlast.domain.lifecycle import Cause, Outcome, RecoveryAction
from outlast.domain.orphans import Patience
from outlast.store.base import Store
from outlast.store.new_tasks import Key, NewTask
from outlast.store.records import (
    Claimed,
    ClaimRequest,
    Healed,
    NewCheckpoint,
    RecoveryPolicy,
    Settlement,
)
from outlast.tasks.ids import new_id
from outlast.testing import ManualClock

LEASE_MS = 300_000
DAY_MS = 24 * 3_600_000
PATIENCE = Patience(stale_ms=90_000, grace_ms=10_000)

COMPLETED = Cause(Outcome.COMPLETE, "worker")
BROKEN = Cause(Outcome.FAIL, "worker", error="broken")
FATAL = BROKEN._replace(retryable=False)
RELEASED = Cause(Outcome.RELEASE, "worker")


def new_task(
    task_id: str, kind: str = "work", payload: Any = None, created_ms: int = 0, **fields: Any
) -> NewTask:
    """A task as the engine hands it to a store."""
    text = None if payload is None else codec.encode(payload, "payload")
    plain = NewTask(
        id=task_id,
        kind=kind,
        queue="default",
        priority=0,
        group=None,
        payload=text,
        payload_sum=codec.payload_sum(task_id, kind, text),
        max_retries=3,
        max_recoveries=3,
        not_before_ms=None,
        created_ms=created_ms,
    )
    return plain._replace(**fields)


def key_for(text: str, kind: str = "work", payload: Any = None) -> Key:
    return Key(text, codec.request_hash(kind, payload), DAY_MS)


def expiry_of(worker: str, retry: int, limit: int = 3) -> dict[str, Any]:
    """What the checkpoint of a lease that ran out says."""
    return {
        "cause": "lease_expired",
        "error": f"the lease of worker {worker} ran out",
        "retry": retry,
        "limit": limit,
    }


class Driver(NamedTuple):
    """What a test does to a store, in one line each."""

    store: Store
    clock: ManualClock

    def add(self, *task_ids: str, **fields: Any) -> list[str]:
        now = self.clock.now()
        new = [new_task(task_id, created_ms=now.utc_ms, **fields) for task_id in task_ids]
        return self.store.add(new, now)

    def claim(
        self,
        worker: str = "w1",
        limit: int = 1,
        queues: tuple[str, ...] = ("default",),
        lease_ms: int = LEASE_MS,
        **narrowed: Any,
    ) -> list[Claimed]:
        request = ClaimRequest(worker, limit, queues, **narrowed)
        return self.store.claim(request, self.clock.now(), lambda kind: lease_ms)

    def claim_one(self, worker: str = "w1", **how: Any) -> Claimed:
        (claimed,) = self.claim(worker, **how)
        return claimed

    def claimed_ids(self, worker: str = "w1", limit: int = 100, **how: Any) -> list[str]:
        return [claimed.task_id for claimed in self.claim(worker, limit, **how)]

    def settle(self, claimed: Claimed, cause: Cause = COMPLETED, result: Any = None) -> bool:
        text = None if result is None else codec.encode(result, "result")
        settlement = Settlement(claimed.grant, claimed.task_id, cause, text)
        (settled,) = self.store.settle([settlement], self.clock.now())
        return settled

    def renew(self, claimed: Claimed, stage: str | None = None) -> bool:
        (held,) = self.store.renew([claimed.grant], self.clock.now(), claimed.lease_ms, stage)
        return held

    def checkpoint(self, claimed: Claimed, type: str, data: Any = None, meta: Any = None) -> int:
        """Appends one and returns its number."""
        new = NewCheckpoint(
            new_id(),
            type,
            codec.encode(data, "data"),
            None if meta is None else codec.encode(meta, "metadata"),
        )
        now = self.clock.now()
        return self.store.add_checkpoint(claimed.grant, claimed.task_id, new, now).sequence_number

    def heal(self, action: RecoveryAction = RecoveryAction.RETRY, batch: int = 500) -> Healed:
        return self.store.heal(self.clock.now(), RecoveryPolicy(action, batch, PATIENCE, {}))

    def lose(self, action: RecoveryAction = RecoveryAction.RETRY) -> Healed:
        """Let every lease run out, and heal."""
        self.clock.advance(LEASE_MS / 1000)
        return self.heal(action)

    def get(self, task_id: str) -> Task:
        found = self.store.get(task_id)
        assert found is not None
        return found

    def moves(self, task_id: str) -> list[str]:
        """A task's history as reasons."""
        return [move.reason for move in self.store.history(task_id) or []]
