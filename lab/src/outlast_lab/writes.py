"""What a history says was handed out and written by leases, as the judges need it."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from outlast_lab.history import Call, History
from outlast_lab.stored import Move, Stored

REASONS = {
    "complete": {"completed"},
    "fail": {"retry", "max_retries_exceeded", "permanent_error"},
    "release": {"released"},
    "park": {"waiting"},
}
# start() notes in the worker's own lock file what it is at, and writes nothing to the store.
_BY_LEASE = frozenset({*REASONS, "renew", "checkpoint"})

Proof = tuple[str, int]


class Leased(NamedTuple):
    """A lease as its worker got it."""

    worker: str
    task_id: str
    token: int
    attempt: int
    lease_ms: int
    call: Call


class Wrote(NamedTuple):
    """What a worker did by its token and was told is done."""

    verb: str
    task_id: str
    token: int
    result: Any
    call: Call


class Writes:
    """Every lease that was handed out, and every write that was acknowledged."""

    def __init__(self, history: History) -> None:
        self.handed = [one for call in history.of("claim", "prefetch") for one in _leases(call)]
        self.leases = {(one.task_id, one.token): one for one in self.handed}
        self.written = [one for call in history.calls for one in _writes(call)]
        self.settled = {
            (one.task_id, one.token): one for one in self.written if one.verb in REASONS
        }


def claims_and_ends(stored: Stored) -> tuple[dict[Proof, Move], dict[Proof, Move]]:
    """By task and token: the move that began a lease, and the one that ended it."""
    claims: dict[Proof, Move] = {}
    ends: dict[Proof, Move] = {}
    for task_id, moves in stored.moves.items():
        for move in moves:
            if move.from_status == "running":
                ends[task_id, move.token] = move
            elif move.to_status == "running":
                claims[task_id, move.token] = move
    return claims, ends


def _leases(call: Call) -> Iterator[Leased]:
    for task_id, token, attempt, lease_ms in call.value if call.is_done else ():
        yield Leased(call.worker, task_id, token, attempt, lease_ms, call)


def named(call: Call) -> list[list[Any]]:
    """The leases a settling call names: task and token."""
    if call.verb == "complete_many":
        return list(call.arguments["leases"])
    return [[call.arguments["ids"][0], call.arguments["token"]]]


def _writes(call: Call) -> Iterator[Wrote]:
    """What a call wrote by leases; a settle that had happened before answers False."""
    if not call.is_done:
        return
    if call.verb == "complete_many":
        results = call.arguments["results"]
        for (task_id, token), result, was_done in zip(
            call.arguments["leases"], results, call.value, strict=True
        ):
            if was_done:
                yield Wrote("complete", task_id, token, result, call)
    elif call.verb in _BY_LEASE and call.value:
        ((task_id, token),) = named(call)
        yield Wrote(call.verb, task_id, token, call.arguments.get("result"), call)


def differs(text: str | None, value: Any) -> bool:
    """Whether stored JSON text stands for another value."""
    return bool((None if text is None else json.loads(text)) != value)
