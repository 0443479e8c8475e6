"""What many processes were told, held against what the store says became of it.

Each process records what was acknowledged to it, and when it asked and was answered, on the clock
that all processes of the host share. Between asking and being answered a thing happened at some
moment nobody knows; before and after, it is certain. The checker complains only of what no such
moment could explain, so a slow machine makes no false alarm.
"""

import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from outlast.domain.lifecycle import LEGAL_MOVES, RECOVERY, WORKER, Status
from tests.support.foreign import foreign_rows

# Leases are counted in whole milliseconds, cut off at both ends.
_TICK_SECONDS = 0.002

_REASONS = {
    "complete": {"completed"},
    "fail": {"retry", "max_retries_exceeded", "permanent_error"},
    "release": {"released"},
}


class Leased(NamedTuple):
    """A lease as its worker got it."""

    worker: str
    task_id: str
    token: int
    attempt: int
    lease_ms: int
    asked_at: float
    got_at: float


class Wrote(NamedTuple):
    """What a worker did by its token; accepted is None when the lease was said to be lost."""

    worker: str
    task_id: str
    token: int
    verb: str
    accepted: bool | None
    asked_at: float
    answered_at: float


class Move(NamedTuple):
    """A transition as the store has it."""

    from_status: str
    to_status: str
    actor: str
    reason: str
    attempt: int
    token: int
    worker: str | None


class StoredTask(NamedTuple):
    """A task as the store has it."""

    status: str
    token: int
    result: str | None


@dataclass
class History:
    """All that was acknowledged, and how the processes ended: killed, or gone by themselves."""

    enqueued: list[str] = field(default_factory=list)
    leases: list[Leased] = field(default_factory=list)
    writes: list[Wrote] = field(default_factory=list)
    killed_at: dict[str, float] = field(default_factory=dict)
    left_at: dict[str, float] = field(default_factory=dict)
    surprises: list[str] = field(default_factory=list)


@dataclass
class Stored:
    """The tasks, and the moves of each in their order."""

    tasks: dict[str, StoredTask] = field(default_factory=dict)
    moves: dict[str, list[Move]] = field(default_factory=lambda: defaultdict(list))


class Violation(NamedTuple):
    """A promise that was broken: which, for which task, and how."""

    kind: str
    task_id: str
    detail: str


class Recorder:
    """A process's own record: one line for each thing, in the file before the next is done.

    A line goes out by one write, so what the process was told survives `kill -9`.
    """

    def __init__(self, folder: Path | str, worker: str) -> None:
        self.worker = worker
        path = os.path.join(folder, f"{worker}.jsonl")
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def enqueued(self, task_ids: Sequence[str]) -> None:
        self._write("enqueued", list(task_ids))

    def leased(self, leases: Iterable[Any], asked_at: float) -> None:
        got_at = time.monotonic()
        for one in leases:
            self._write(
                "leased", [one.task_id, one.token, one.attempt, one.lease_ms, asked_at, got_at]
            )

    def wrote(self, lease: Any, verb: str, accepted: bool | None, asked_at: float) -> None:
        self._write(
            "wrote", [lease.task_id, lease.token, verb, accepted, asked_at, time.monotonic()]
        )

    def leaving(self) -> None:
        self._write("leaving", [time.monotonic()])

    def surprised(self, error: BaseException) -> None:
        self._write("surprised", [f"{type(error).__name__}: {error}"])

    def _write(self, word: str, values: list[Any]) -> None:
        os.write(self._descriptor, (json.dumps([word, *values]) + "\n").encode())


def read_history(folder: Path) -> History:
    """All records in a folder; a line that a kill cut off was never finished and says nothing."""
    history = History()
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):
                word, *values = json.loads(line)
                _add(history, path.stem, word, values)
    return history


def _add(history: History, worker: str, word: str, values: list[Any]) -> None:
    if word == "enqueued":
        history.enqueued += values
    elif word == "leased":
        history.leases.append(Leased(worker, *values))
    elif word == "wrote":
        history.writes.append(Wrote(worker, *values))
    elif word == "leaving":
        history.left_at[worker] = values[0]
    else:
        history.surprises.append(f"{worker}: {values[0]}")


def read_stored(database: Path) -> Stored:
    """The store as a foreign tool sees it."""
    stored = Stored()
    for task_id, *rest in foreign_rows(database, "SELECT id, status, token, result FROM tasks"):
        stored.tasks[task_id] = StoredTask(*rest)
    rows = foreign_rows(
        database,
        """SELECT t.id, x.from_status, x.to_status, x.actor, x.reason, x.attempt, x.token,
                  x.worker_id
           FROM transitions x JOIN tasks t ON t.seq = x.task_seq ORDER BY x.pos""",
    )
    for task_id, *rest in rows:
        stored.moves[task_id].append(Move(*rest))
    return stored


def result_of(worker: str, token: int) -> str:
    """The result with which a worker completes a task, so that the store tells whose it took."""
    return f"{worker}/{token}"


def violations(history: History, stored: Stored) -> list[Violation]:
    """Every promise that history and store together show to be broken."""
    return list(_Checker(history, stored).all())


class _Checker:
    def __init__(self, history: History, stored: Stored) -> None:
        self._history = history
        self._stored = stored
        self._leases = {(one.task_id, one.token): one for one in history.leases}
        self._accepted = {
            (one.task_id, one.token): one
            for one in history.writes
            if one.accepted and one.verb in _REASONS
        }
        self._ends = {
            (task_id, move.token): move
            for task_id, moves in stored.moves.items()
            for move in moves
            if move.from_status == Status.RUNNING
        }

    def all(self) -> Iterator[Violation]:
        yield from self._lost()
        yield from self._twice()
        yield from self._zombies()
        for task_id, task in self._stored.tasks.items():
            moves = self._stored.moves.get(task_id, [])
            yield from self._path(task_id, task, moves)
            yield from self._tokens(task_id, moves)
            yield from self._results(task_id, task)
            claims = [move for move in moves if move.to_status == Status.RUNNING]
            for one, following in pairwise(claims):
                yield from self._overlap(task_id, one, following)
            for one in claims:
                yield from self._end(task_id, one)

    def _lost(self) -> Iterator[Violation]:
        """Whatever was acknowledged is there."""
        for task_id in self._history.enqueued:
            if task_id not in self._stored.tasks:
                yield Violation("lost", task_id, "was enqueued and is not there")
        claims = {
            (task_id, move.token): move
            for task_id, moves in self._stored.moves.items()
            for move in moves
            if move.to_status == Status.RUNNING
        }
        for key, lease in self._leases.items():
            claim = claims.get(key)
            if claim is None or (claim.attempt, claim.worker) != (lease.attempt, lease.worker):
                yield Violation("lost", lease.task_id, f"{lease} and the store says {claim}")
        for key, wrote in self._accepted.items():
            end = self._ends.get(key)
            if end is None or end.actor != WORKER or end.reason not in _REASONS[wrote.verb]:
                yield Violation("lost", wrote.task_id, f"{wrote} and the store says {end}")

    def _twice(self) -> Iterator[Violation]:
        """Each task is completed once, each lease handed out once and settled once."""
        for task_id, moves in self._stored.moves.items():
            done = sum(move.to_status == Status.COMPLETED for move in moves)
            if done > 1:
                yield Violation("twice", task_id, f"was completed {done} times")
        handed = Counter((one.task_id, one.token) for one in self._history.leases)
        settled = Counter(
            (one.task_id, one.token)
            for one in self._history.writes
            if one.accepted and one.verb in _REASONS
        )
        for what, counted in (("handed out", handed), ("settled", settled)):
            for (task_id, token), count in counted.items():
                if count > 1:
                    yield Violation("twice", task_id, f"token {token} was {what} {count} times")

    def _zombies(self) -> Iterator[Violation]:
        """No write is accepted that was asked for when a later lease was out already."""
        newer: dict[str, list[Leased]] = defaultdict(list)
        for lease in self._history.leases:
            newer[lease.task_id].append(lease)
        for wrote in self._history.writes:
            for lease in newer[wrote.task_id] if wrote.accepted else ():
                if lease.token > wrote.token and lease.got_at < wrote.asked_at:
                    yield Violation("zombie", wrote.task_id, f"{wrote} after {lease}")

    def _path(self, task_id: str, task: StoredTask, moves: Sequence[Move]) -> Iterator[Violation]:
        """From pending by legal moves, each from where the last one ended, to the present."""
        at: str = Status.PENDING
        for move in moves:
            if move.from_status != at or (move.from_status, move.to_status) not in LEGAL_MOVES:
                yield Violation("path", task_id, f"{move} while it was {at}")
            at = move.to_status
        if at != task.status:
            yield Violation("path", task_id, f"is {task.status}, its moves lead to {at}")

    def _tokens(self, task_id: str, moves: Sequence[Move]) -> Iterator[Violation]:
        """Every claim raises the token, and only a claim changes it."""
        last = 0
        for move in moves:
            is_claim = move.to_status == Status.RUNNING
            if move.token < last or (move.token > last) != is_claim:
                yield Violation("tokens", task_id, f"{move} after token {last}")
            last = move.token

    def _results(self, task_id: str, task: StoredTask) -> Iterator[Violation]:
        """The result is that of the lease whose completion was accepted."""
        wrote = self._accepted.get((task_id, task.token))
        if task.status == Status.COMPLETED and wrote is not None:
            expected = json.dumps(result_of(wrote.worker, wrote.token))
            if wrote.verb != "complete" or task.result != expected:
                yield Violation("lost", task_id, f"{wrote} and the result is {task.result}")

    def _end(self, task_id: str, claim: Move) -> Iterator[Violation]:
        """Nobody's lease ends by a crash while it lives, or by its own hand without asking."""
        end = self._ends.get((task_id, claim.token))
        worker = claim.worker or ""
        if end is None or worker in self._history.killed_at:
            return
        if end.actor == RECOVERY and end.reason.startswith("crash"):
            yield Violation("overlap", task_id, f"{worker} lives and was declared dead: {end}")
        has_asked = (task_id, claim.token) in self._accepted
        if end.actor == WORKER and not has_asked and worker not in self._history.left_at:
            yield Violation("path", task_id, f"nobody was told of {end}")

    def _overlap(self, task_id: str, claim: Move, following: Move) -> Iterator[Violation]:
        """The next lease is handed out only when this one has ended."""
        held = self._leases.get((task_id, claim.token))
        successor = self._leases.get((task_id, following.token))
        end = self._ends.get((task_id, claim.token))
        if held is None or successor is None or end is None:
            return
        if successor.got_at < self._earliest_end(held, end):
            yield Violation("overlap", task_id, f"{successor} while {held} stood; it ended {end}")

    def _earliest_end(self, held: Leased, end: Move) -> float:
        """No lease can have ended before this moment."""
        killed_at = self._history.killed_at.get(held.worker)
        wrote = self._accepted.get((held.task_id, held.token))
        if wrote is not None:
            return wrote.asked_at
        if end.reason.startswith("lease_expired"):
            return held.asked_at + held.lease_ms / 1000 - _TICK_SECONDS
        if end.reason.startswith("crash") and killed_at is not None:
            return killed_at
        if killed_at is None and held.worker in self._history.left_at:
            return self._history.left_at[held.worker]
        return held.asked_at
