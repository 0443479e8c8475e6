"""The transitions of a task, replayed from its creation: where they lead, and what is odd.

Written from the schema's page and not with the engine's own table, which is what is on trial.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from outlast_lab.stored import Move, StoredTask

FINAL = frozenset({"completed", "failed", "cancelled"})

_LEGAL = {
    "claimed": ("pending", "running"),
    "completed": ("running", "completed"),
    "retry": ("running", "pending"),
    "released": ("running", "pending"),
    "waiting": ("running", "pending"),
    "never_started": ("running", "pending"),
    "crash_retry": ("running", "pending"),
    "crash_reset": ("running", "pending"),
    "lease_expired_retry": ("running", "pending"),
    "lease_expired_reset": ("running", "pending"),
    "taken_retry": ("running", "pending"),
    "taken_reset": ("running", "pending"),
    "crash_policy_fail": ("running", "failed"),
    "lease_expired_policy_fail": ("running", "failed"),
    "taken_policy_fail": ("running", "failed"),
}
_FROM_ANYWHERE = {
    "cancelled": "cancelled",
    "failed_by_operator": "failed",
    "permanent_error": "failed",
    "max_retries_exceeded": "failed",
}
_REFUNDED = frozenset(
    {"released", "waiting", "never_started", "crash_reset", "lease_expired_reset", "taken_reset"}
)
_RECOVERED = frozenset(
    {"crash_retry", "crash_reset", "lease_expired_retry", "lease_expired_reset"}
    | {"taken_retry", "taken_reset"}
)


class Standing(NamedTuple):
    """What the moves so far make of a task."""

    status: str = "pending"
    attempt: int = 0
    retry_count: int = 0
    recovery_count: int = 0
    token: int = 0

    def after(self, move: Move) -> "Standing":
        """The standing once a move is made."""
        reason = move.reason
        return Standing(
            move.to_status,
            self.attempt + (reason == "claimed") - (reason in _REFUNDED),
            self.retry_count + (reason == "retry"),
            self.recovery_count + (reason in _RECOVERED),
            move.token,
        )

    def objections(self, move: Move) -> Iterator[tuple[str, str]]:
        """Why a move cannot follow: the kind of violation, and the detail."""
        if move.from_status != self.status or not _is_legal(move):
            yield "path", f"{move} while it was {self.status}"
        if (move.token > self.token) != (move.reason == "claimed") or move.token < self.token:
            yield "tokens", f"{move} after token {self.token}"
        if move.attempt != self.after(move).attempt:
            yield "counters", f"{move} after attempt {self.attempt}"


def _is_legal(move: Move) -> bool:
    anywhere = _FROM_ANYWHERE.get(move.reason)
    if anywhere is not None:
        return move.to_status == anywhere and move.from_status in ("pending", "running")
    return _LEGAL.get(move.reason) == (move.from_status, move.to_status)


def objections(task: StoredTask, moves: Sequence[Move]) -> Iterator[tuple[str, str]]:
    """Every step that cannot be, and whether the present differs from where the moves lead."""
    standing = Standing()
    for move in moves:
        yield from standing.objections(move)
        standing = standing.after(move)
    present = Standing(task.status, task.attempt, task.retry_count, task.recovery_count, task.token)
    if present != standing:
        yield "path", f"is {present}, its moves lead to {standing}"
