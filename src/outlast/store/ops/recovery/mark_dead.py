"""Taking somebody's word for a worker's death, and burying it as any other that died."""

from outlast.domain.orphans import Judgement, Liveness, Sign
from outlast.errors import InvalidInput
from outlast.store.access import Access
from outlast.store.ops.recovery.healer import Healer
from outlast.store.ops.recovery.recovery_pass import RecoveryPass, Tally
from outlast.store.presence import Peer, judge
from outlast.store.records import Death

_THERE = frozenset({Sign.LOCK_HELD, Sign.PROCESS_THERE})


def mark_dead(
    access: Access, healer: Healer, this: RecoveryPass, incarnation: str, is_forced: bool
) -> Death | None:
    """Mark one dead by somebody's word; None if it has ended, InvalidInput if it is alive.

    What a living one says while that happens counts, unless it is done by force.
    """
    who, tally = {"incarnation": incarnation}, Tally()
    row = access.read("judging a worker", lambda tx: tx.row("living_peer", who))
    if row is None:
        return None
    (found,) = judge(access.presence, [Peer(*row)], this.now, this.policy.patience)
    lives = found.judgement.liveness is Liveness.ALIVE
    is_alive = is_forced and (lives or found.sign in _THERE)
    if lives and not is_forced:
        raise InvalidInput(
            f"worker {found.peer.name} (pid {found.peer.pid}) is alive: {found.sign}; only by"
            " force (force=True, --force) is its work taken from it"
        )
    if not found.is_dead:
        word = f"{found.judgement.because}, and it was declared dead by {this.actor}"
        sign = Sign.LOCK_FREE if is_forced else Sign.NONE
        found = found._replace(judgement=Judgement(Liveness.DEAD, word), sign=sign)
        brief = this.policy.patience._replace(grace_ms=0)
        this = this._replace(policy=this.policy._replace(patience=brief))
    healer.end_dead_worker(found, this, tally, is_alive=is_alive)
    return tally.deaths[0] if tally.deaths else None
