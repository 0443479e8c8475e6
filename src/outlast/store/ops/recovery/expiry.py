"""A lease that ran out or was taken: its cause, and the checkpoint that tells the next attempt."""

from collections.abc import Sequence
from uuid import uuid4

from outlast.clock import Instant
from outlast.domain import codec
from outlast.domain.budgets import recovery_limit
from outlast.domain.lifecycle import RECOVERY, Cause, Outcome, Parked
from outlast.store.ops.settle import SameRows, TaskRow
from outlast.store.records import RecoveryPolicy
from outlast.store.transaction import Transaction

_CAUSES = {Outcome.EXPIRE: "lease_expired", Outcome.TAKE: "taken_by_operator"}


def cause(
    task: TaskRow, policy: RecoveryPolicy, actor: str = RECOVERY, is_forced: bool = False
) -> Cause:
    """Why it goes back, or fails: by force it is taken away whatever its holder does."""
    how = f"was taken away by {actor}" if is_forced else "ran out"
    return Cause(
        Outcome.TAKE if is_forced else Outcome.EXPIRE,
        actor,
        error=f"the lease of worker {task.worker} {how}",
        action=policy.action_for(task.kind),
        max_recoveries=policy.max_recoveries,
        parked=Parked.HOLD if policy.is_held else None,
        summary=f"in kind `{task.kind}`: the lease of worker {task.worker} {how}",
    )


def add_boundaries(tx: Transaction, endings: Sequence[SameRows], now: Instant) -> None:
    """An error_boundary for each of these leases: one statement for all that say the same."""
    alike: dict[str, list[int]] = {}
    for rows, why in endings:
        if why.outcome in _CAUSES:
            task = rows[0]
            said = {
                "cause": _CAUSES[why.outcome],
                "error": why.error,
                "retry": task.crashes_in_row + 1,
                "limit": recovery_limit(task.max_recoveries, why.max_recoveries),
            }
            seqs = alike.setdefault(codec.encode(said, "checkpoint"), [])
            seqs += [row.seq for row in rows]
    for data, seqs in alike.items():
        values = {
            "seqs": tx.ids(seqs),
            "id_prefix": f"expiry-{now.utc_ms:012x}-{uuid4().hex[:8]}-",
            "data": data,
            "sum": codec.snapshot_sum(data),
            "now": now.utc_ms,
        }
        tx.run("error_boundaries", values)
