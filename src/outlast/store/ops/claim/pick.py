"""A claim: promote what is due, pick the best, move it to running, log it; one transaction."""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from outlast.clock import Instant
from outlast.domain.codec import payload_sum
from outlast.domain.events import PARKED
from outlast.domain.lifecycle import WORKER, Cause, Outcome, Parked, Situation, Status, decide
from outlast.domain.task import Task
from outlast.probes import probe
from outlast.store.ops.claim.log import Tale
from outlast.store.ops.events import add_event, add_taken
from outlast.store.ops.rows import task_from
from outlast.store.ops.settle import TaskRow, move
from outlast.store.records import Claimed, ClaimRequest, Grant, LeaseLength
from outlast.store.transaction import Row, Transaction, Values

PROMOTE_BATCH = 1000

# Where a row of `candidates` has what decide() asks for.
COUNTERS = slice(5, 11)

# Spares the detour by which a named tuple is usually made.
_new_tuple = tuple.__new__


class Claim(NamedTuple):
    """A claim under way: what is wanted, by which worker's row, when, and on what terms."""

    request: ClaimRequest
    holder: int
    token_floor: int
    now: Instant
    lease_ms: LeaseLength
    tale: Tale


CLAIMED = Cause(Outcome.CLAIM, WORKER)


def claim_tasks(tx: Transaction, claim: Claim) -> list[Claimed] | None:
    """Hand out up to `limit` tasks; what cannot run any more is settled on the way.

    None when so much fell due that this transaction is full of it: commit it and come again,
    for one of the rest may come before what is ready.
    """
    if not promote_due(tx, claim.now):
        return None
    limit = claim.request.limit
    picked: list[Row] = []
    for candidates in _eligible(tx, claim.request):
        picked += _runnable(tx, candidates, claim.now, claim.tale)
        if len(picked) >= limit:
            break
    return _start(tx, picked[:limit], claim)


def promote_due(tx: Transaction, now: Instant) -> bool:
    """Make what is due eligible; False when more may be due than fit one transaction."""
    if tx.value("next_due", {"now": now.utc_ms}) is None:
        return True
    promoted = tx.run("promote_due", {"now": now.utc_ms, "limit": PROMOTE_BATCH})
    return promoted < PROMOTE_BATCH


def take_tasks(
    tx: Transaction, request: ClaimRequest, now: Instant, tale: Tale
) -> list[Task] | None:
    """Remove up to `limit` tasks and return them: whoever crashes afterwards has lost them."""
    if not promote_due(tx, now):
        return None
    taken: list[Task] = []
    for candidates in _eligible(tx, request):
        runnable = [row[0] for row in _runnable(tx, candidates, now, tale)]
        seqs = runnable[: request.limit - len(taken)]
        if seqs:
            taken += [task_from(row) for row in tx.rows("records_by_seq", {"seqs": tx.ids(seqs)})]
            add_taken(tx, seqs, now)
            tx.run("delete_tasks", {"seqs": tx.ids(seqs)})
        if len(taken) >= request.limit:
            break
    return taken


def _eligible(tx: Transaction, request: ClaimRequest) -> Iterable[list[Row]]:
    """Batches of rows of `candidates`, queue by queue, until nothing more is on offer.

    A candidate that is settled or parked on the way leaves the index, so a range that was full
    is read again for what stood behind it.
    """
    paused = {name for (name,) in tx.rows("paused_queues")}
    for queue in request.queues:
        if queue in paused:
            continue
        offered: set[int] = set()
        while True:
            found = _pick(tx, request, queue)
            seqs = [seq for seq in found if seq not in offered]
            if seqs:
                offered.update(seqs)
                yield tx.rows("candidates", {"seqs": tx.ids(seqs)})
            if len(found) < request.limit or not seqs:
                break


def _pick(tx: Transaction, request: ClaimRequest, queue: str) -> list[int]:
    limit = request.limit + len(request.excluding)
    values: Values = {"queue": queue, "group": request.group, "limit": limit}
    name = "ready_by_group" if request.group is not None else "ready_any"
    if request.kinds is None:
        return _others(request, tx.rows(name, values))
    name = "ready_by_group_kind" if request.group is not None else "ready_by_kind"
    return _others(request, tx.rows_of_each(name, values, request.kinds))


def _others(request: ClaimRequest, rows: Iterable[Row]) -> list[int]:
    return [row[0] for row in rows if row[0] not in request.excluding]


def _runnable(tx: Transaction, candidates: list[Row], now: Instant, tale: Tale) -> list[Row]:
    """Those that can run, with their payloads as text; the others are settled or set aside."""
    spent: dict[tuple[int, ...], bool] = {}
    found = []
    for row in candidates:
        counters = row[COUNTERS]
        if counters not in spent:
            situation = Situation(Status.PENDING, *counters)
            spent[counters] = decide(situation, CLAIMED).to is not Status.RUNNING
        (
            seq, task_id, kind, queue, group, attempt, retries, recoveries, _, _, _, token,
            checksum, raw,
        ) = row  # fmt: skip
        payload = None if raw is None else raw.decode(errors="replace")
        if checksum != payload_sum(task_id, kind, payload):
            tale.damaged.append(task_id)
            tx.run("park_damaged", {"seq": seq, "now": now.utc_ms})
            add_event(tx, PARKED, now, {"reason": Parked.PARTIAL.value}, task_id=task_id)
        elif spent[counters]:
            tale.spent.append(_fail_spent(tx, task_id, kind, now))
        else:
            if retries or recoveries:
                tale.again.append(seq)
            found.append((seq, task_id, kind, queue, group, payload, attempt, token))
    return found


def _fail_spent(tx: Transaction, task_id: str, kind: str, now: Instant) -> TaskRow:
    row = tx.row("situation_by_id", {"id": task_id})
    assert row is not None, "the row was read in this same transaction"
    task = TaskRow(*row)._replace(kind=kind)
    move(tx, [(task, CLAIMED, None)], now)
    return task


def _start(tx: Transaction, picked: list[Row], claim: Claim) -> list[Claimed]:
    by_length: dict[int, list[int]] = defaultdict(list)
    lengths_ms: dict[str, int] = {}
    holder, floor = claim.holder, claim.token_floor
    claimed = []
    for seq, task_id, kind, queue, group, payload, attempt, token in picked:
        if kind not in lengths_ms:
            lengths_ms[kind] = claim.lease_ms(kind)
        length_ms = lengths_ms[kind]
        by_length[length_ms].append(seq)
        grant = _new_tuple(Grant, (seq, holder, max(token, floor) + 1))
        record = (grant, task_id, kind, queue, group, payload, attempt + 1, length_ms)
        claimed.append(_new_tuple(Claimed, record))
    for length_ms, seqs in by_length.items():
        _move_to_running(tx, seqs, length_ms, claim)
    return claimed


def _move_to_running(tx: Transaction, seqs: list[int], length_ms: int, claim: Claim) -> None:
    changed = tx.run(
        "claim_tasks",
        {
            "seqs": tx.ids(seqs),
            "holder": claim.holder,
            "worker": claim.request.worker,
            "token_floor": claim.token_floor,
            "unstarted": int(not claim.request.started),
            "lease_ms": length_ms,
            "now": claim.now.utc_ms,
            "mono": claim.now.mono_ms,
        },
    )
    assert changed == len(seqs), "the write lock is ours, so nobody took them meanwhile"
    probe("claim.updated")
    tx.run("log_claims", {"seqs": tx.ids(seqs), "actor": CLAIMED.actor, "reason": "claimed"})


def anything_eligible(tx: Transaction, request: ClaimRequest, now: Instant) -> bool:
    """Whether a claim would find anything, asked without the write lock."""
    if tx.value("next_due", {"now": now.utc_ms}) is not None:
        return True
    paused = {name for (name,) in tx.rows("paused_queues")}
    return any(_pick(tx, request, queue) for queue in request.queues if queue not in paused)
