"""The way to a worker: heal what is stale, then take the best eligible tasks."""

from collections.abc import Sequence
from dataclasses import replace

from outlast.app.lease import Lease
from outlast.domain.duration import Duration
from outlast.domain.names import checked_name, checked_names, checked_queues, checked_whole
from outlast.domain.task import Task
from outlast.errors import InvalidInput, OutlastError, StoreError
from outlast.maintenance.healing import heal_before_claim
from outlast.store.records import MAX_KINDS, Claimed, ClaimRequest
from outlast.store.session import Session
from outlast.tasks.settle import give_back

MAX_BATCH = 10_000


def request_for(
    worker: str,
    limit: int,
    queue: str | Sequence[str],
    *,
    kinds: Sequence[str] | None,
    group: str | None,
    started: bool = True,
) -> ClaimRequest:
    """A checked claim request; queues and kinds keep their order and lose their doubles."""
    narrowed = None if kinds is None else checked_names(kinds, "kinds")
    if narrowed is not None and len(narrowed) > MAX_KINDS:
        raise InvalidInput(f"a claim can be narrowed to at most {MAX_KINDS} kinds")
    return ClaimRequest(
        worker=checked_name(worker, "worker"),
        limit=checked_whole(limit, "limit", 1, MAX_BATCH),
        queues=checked_queues(queue, "queue"),
        kinds=narrowed,
        group=None if group is None else checked_name(group, "group"),
        started=started,
    )


def claim(session: Session, request: ClaimRequest, lease: Duration | None) -> list[Lease]:
    """Up to `limit` leases; an empty list only when nothing is eligible.

    A claim that comes up short looks for dead holders at once and tries again: what they left
    behind is eligible too.
    """
    if request.kinds == ():
        return []
    healed = heal_before_claim(session, force=False)
    claimed = _claim_once(session, request, lease)
    if len(claimed) < request.limit and not healed and _looks_again(session, claimed):
        rest = replace(request, limit=request.limit - len(claimed))
        try:
            claimed += _claim_once(session, rest, lease)
        except OutlastError as error:
            if not claimed:
                raise
            session.log.warning("claiming what was put back failed: %s", error)
    claimed_at = session.now()
    return [Lease(session, one, claimed_at) for one in claimed]


def _looks_again(session: Session, claimed: Sequence[Claimed]) -> bool:
    """Whether anything was put back, or may have been by others since we looked: they are told of
    deaths as early as we are, and find nothing left for us to do."""
    return heal_before_claim(session, force=True) or not claimed


def _claim_once(session: Session, request: ClaimRequest, lease: Duration | None) -> list[Claimed]:
    lengths: dict[str, int] = {}

    def lease_ms(kind: str) -> int:
        if kind not in lengths:
            lengths[kind] = session.settings.lease_ms(kind, lease)
        return lengths[kind]

    lease_ms("")
    claimed = session.store.claims.claim(request, session.now(), lease_ms, session.now)
    if not session.hand_out(claimed, request.started):
        give_back(session, claimed)
        raise StoreError("this store was closed while a claim was under way; open it again")
    return claimed


def take(session: Session, request: ClaimRequest) -> list[Task]:
    """Remove tasks and return them: at most once, and lost if the caller crashes."""
    if request.kinds == ():
        return []
    return session.store.claims.take(request, session.now())
