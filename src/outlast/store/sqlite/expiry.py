"""A lease that ran out: its cause, and the checkpoint that tells the next attempt of it."""

from collections.abc import Sequence
from uuid import uuid4

from outlast.clock import Instant
from outlast.domain import codec
from outlast.domain.lifecycle import RECOVERY, Cause, Outcome, Parked
from outlast.store.records import RecoveryPolicy
from outlast.store.sqlite.settle import Ending, Standing
from outlast.store.sqlite.transaction import Transaction, int_array


def cause(standing: Standing, policy: RecoveryPolicy, is_forced: bool = False) -> Cause:
    """Why it goes back, or fails."""
    how = "was taken away by force" if is_forced else "ran out"
    return Cause(
        Outcome.EXPIRE,
        RECOVERY,
        error=f"the lease of worker {standing.worker} {how}",
        action=policy.action_for(standing.kind),
        parked=Parked.HOLD if policy.is_held else None,
        summary=f"in kind `{standing.kind}`: the lease of worker {standing.worker} {how}",
    )


def add_boundaries(tx: Transaction, endings: Sequence[Ending], now: Instant) -> None:
    """An error_boundary for each expired lease: one statement for all that say the same."""
    alike: dict[str, list[int]] = {}
    for standing, why, _ in endings:
        if why.outcome is Outcome.EXPIRE:
            said = {
                "cause": "lease_expired",
                "error": why.error,
                "retry": standing.recovery_count + 1,
                "limit": standing.max_recoveries,
            }
            alike.setdefault(codec.encode(said, "checkpoint"), []).append(standing.seq)
    for data, seqs in alike.items():
        values = {
            "seqs": int_array(seqs),
            "id_prefix": f"expiry-{now.utc_ms:012x}-{uuid4().hex[:8]}-",
            "data": data,
            "sum": codec.snapshot_sum(data),
            "now": now.utc_ms,
        }
        tx.run("error_boundaries", values)
