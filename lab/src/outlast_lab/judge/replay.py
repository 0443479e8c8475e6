"""The transitions of a task, replayed from its creation: where they lead, and what is odd.

Written from the schema's page and not with the engine's own table, which is what is on trial.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from outlast_lab.judge.foreign_reader import Move, StoredCheckpoint, StoredTask

MOST_RECOVERIES = 100

# What a handler may write that is no progress, and what recovery writes.
_NO_PROGRESS = ("iteration_start", "error_boundary")

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


def objections_to_budget(
    task: StoredTask, moves: Sequence[Move], checkpoints: Sequence[StoredCheckpoint]
) -> Iterator[str]:
    """Whether it failed or crashed more often than it may, and counted its crashes anew aright."""
    own = task.max_recoveries
    in_row, in_all = task.crashes_in_row, task.recovery_count
    if task.retry_count > task.max_retries or in_all > MOST_RECOVERIES or task.attempt < 0:
        yield f"has spent more than it may: {task}"
    elif own is not None and in_row > own:
        yield f"crashed {in_row} times in a row and was put back, of {own} times that it may"
    least, most = _crashes_in_row(moves, checkpoints)
    if not least <= in_row <= most:
        yield f"has {in_row} crashes in a row, and they must be {least} to {most}"
    is_lost = bool(moves) and _is_given_up(moves[-1])
    if is_lost and own is not None and in_row < own and in_all < MOST_RECOVERIES:
        yield f"was given up after {in_row} crashes in a row, of {own} that it may have"


def _crashes_in_row(
    moves: Sequence[Move], checkpoints: Sequence[StoredCheckpoint]
) -> tuple[int, int]:
    """How many crashes there were since the last progress, at least and at most.

    An attempt that was given back bears the number of the next one, and a checkpoint tells only
    that number: it may have been written in any of those.
    """
    last = max((one.attempt for one in checkpoints if one.type not in _NO_PROGRESS), default=0)
    places = [n for n, move in enumerate(moves) if (move.reason, move.attempt) == ("claimed", last)]
    first, latest = (places[0], places[-1]) if places else (0, 0)
    least, most = (sum(one.reason in _RECOVERED for one in moves[n:]) for n in (latest, first))
    # What was trimmed may have been the last progress.
    is_trimmed = bool(checkpoints) and checkpoints[0].number > 1
    return 0 if is_trimmed else least, most


def _is_given_up(move: Move) -> bool:
    is_loss = move.reason == "max_retries_exceeded" and move.from_status == "running"
    return is_loss and move.actor != "worker"
