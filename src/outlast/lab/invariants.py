"""The invariants, written once: what a history and a store together show to be broken.

They complain only of what nothing explains: a call that was not answered may have happened or not,
and between asking and being answered at any moment. So a slow machine makes no false alarm.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain, pairwise
from typing import Any, NamedTuple

from outlast.lab.history import Call, History
from outlast.lab.stored import Move, Stored
from outlast.lab.wholeness import Violation, violations_of_file

# Leases are counted in whole milliseconds, cut off at both ends.
_TICK_MS = 2

_REASONS = {
    "complete": {"completed"},
    "fail": {"retry", "max_retries_exceeded", "permanent_error"},
    "release": {"released"},
    "park": {"waiting"},
}
# start() notes in the worker's own lock file what it is at, and writes nothing to the store.
_BY_LEASE = frozenset({*_REASONS, "renew", "checkpoint"})


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


def violations(history: History, stored: Stored) -> list[Violation]:
    """Every promise that history and store together show to be broken."""
    return list(chain(violations_of_file(stored), _Checker(history, stored).all()))


class _Checker:
    def __init__(self, history: History, stored: Stored) -> None:
        self._history = history
        self._stored = stored
        self._handed = [one for call in history.of("claim", "prefetch") for one in _leases(call)]
        self._leases = {(one.task_id, one.token): one for one in self._handed}
        self._written = [one for call in history.calls for one in _writes(call)]
        self._settled = {
            (one.task_id, one.token): one for one in self._written if one.verb in _REASONS
        }
        self._claims: dict[tuple[str, int], Move] = {}
        self._ends: dict[tuple[str, int], Move] = {}
        for task_id, moves in stored.moves.items():
            for move in moves:
                if move.from_status == "running":
                    self._ends[task_id, move.token] = move
                elif move.to_status == "running":
                    self._claims[task_id, move.token] = move

    def all(self) -> Iterator[Violation]:
        for call in self._history.calls:
            if call.outcome == "raised":
                yield Violation("surprise", "", f"{call.worker} {call.verb}: {call.value}")
        yield from self._lost_tasks()
        yield from self._halves()
        yield from self._phantoms()
        yield from self._lost_leases()
        yield from self._lost_writes()
        yield from self._lost_decisions()
        yield from self._twice()
        yield from self._zombies()
        yield from self._leases_of_each_task()

    # Acknowledged is stored, and nothing else is

    def _lost_tasks(self) -> Iterator[Violation]:
        taken = {task_id for call in self._history.of("take") for task_id in call.value or ()}
        may_be_missing = sum(
            call.arguments["limit"]
            for call in self._history.of("take")
            if not call.is_done and call.may_have_happened
        )
        missing: set[str] = set()
        for call in self._history.of("enqueue", "enqueue_many", "retry"):
            asked = dict(
                zip(call.arguments["ids"], call.arguments.get("payloads", ()), strict=False)
            )
            for task_id in call.value or () if call.is_done else ():
                task = self._stored.tasks.get(task_id)
                if task is None and task_id not in taken | missing:
                    # One task may be acknowledged many times, to all who name its key.
                    missing.add(task_id)
                    may_be_missing -= 1
                    if may_be_missing < 0:
                        yield Violation("lost", task_id, f"was stored by {call} and is not there")
                elif (
                    task is not None and task_id in asked and _differs(task.payload, asked[task_id])
                ):
                    yield Violation(
                        "lost", task_id, f"has payload {task.payload!r}, not that of {call}"
                    )
        for task_id in taken & set(self._stored.tasks):
            if not self._is_asked_for_after_taking(task_id):
                yield Violation("twice", task_id, "was taken and is still there")

    def _is_asked_for_after_taking(self, task_id: str) -> bool:
        taken_at = max(
            call.asked_at for call in self._history.of("take") if task_id in (call.value or ())
        )
        return any(
            task_id in call.arguments["ids"] and (call.answered_at or taken_at) >= taken_at
            for call in self._history.of("enqueue", "enqueue_many")
        )

    def _halves(self) -> Iterator[Violation]:
        """A call that stores many tasks stores all of them or none, answered or not."""
        if any(True for _ in self._history.of("take")):
            return
        for call in self._history.of("enqueue_many"):
            ids = call.arguments["ids"]
            there = [task_id for task_id in ids if task_id in self._stored.tasks]
            if not call.is_done and there and len(there) < len(ids):
                yield Violation("torn", there[0], f"{len(there)} of {len(ids)} by {call}")

    def _phantoms(self) -> Iterator[Violation]:
        """What is there was asked for, and not refused."""
        asked: dict[str, bool] = defaultdict(bool)
        for call in self._history.of("enqueue", "enqueue_many"):
            for task_id in call.arguments["ids"]:
                asked[task_id] |= call.may_have_happened
        cloned = {
            task_id
            for call in self._history.of("retry")
            if call.may_have_happened
            for task_id in call.arguments["ids"]
        }
        for task in self._stored.tasks.values():
            if task.retry_of is not None:
                if task.retry_of not in cloned:
                    yield Violation("phantom", task.id, f"clone of {task.retry_of}, unasked for")
            elif not asked.get(task.id, False):
                how = "was refused" if task.id in asked else "was never asked for"
                yield Violation("phantom", task.id, f"{how} and is there")

    def _is_gone(self, task_id: str) -> bool:
        """Whether a task is missing as a whole, which is told elsewhere."""
        return task_id not in self._stored.tasks

    def _lost_leases(self) -> Iterator[Violation]:
        for (task_id, token), lease in self._leases.items():
            claim = self._claims.get((task_id, token))
            if self._is_gone(task_id):
                continue
            if claim is None or (claim.attempt, claim.worker) != (lease.attempt, lease.worker):
                yield Violation("lost", task_id, f"{lease} and the store says {claim}")

    def _lost_writes(self) -> Iterator[Violation]:
        trimmed = {
            one for call in self._history.of("trim_checkpoints") for one in call.arguments["ids"]
        }
        for wrote in self._written:
            if self._is_gone(wrote.task_id):
                continue
            end = self._ends.get((wrote.task_id, wrote.token))
            if wrote.verb in _REASONS and (
                end is None or end.actor != "worker" or end.reason not in _REASONS[wrote.verb]
            ):
                yield Violation("lost", wrote.task_id, f"{wrote} and the store says {end}")
            if wrote.verb == "complete":
                task = self._stored.tasks[wrote.task_id]
                if _differs(task.result, wrote.result):
                    yield Violation("lost", wrote.task_id, f"{wrote}; the result is {task.result}")
            if wrote.verb == "checkpoint" and wrote.task_id not in trimmed:
                yield from self._lost_checkpoint(wrote)

    def _lost_checkpoint(self, wrote: Wrote) -> Iterator[Violation]:
        wanted = (wrote.call.arguments["type"], wrote.call.arguments["data"])
        kept = self._stored.checkpoints.get(wrote.task_id, [])
        if wanted not in [(one.type, json.loads(one.data)) for one in kept]:
            yield Violation("lost", wrote.task_id, f"{wrote} and there is no such checkpoint")

    def _lost_decisions(self) -> Iterator[Violation]:
        """What operators decided stands, and what resolve() said is true."""
        for verb, status in (("cancel", "cancelled"), ("fail_task", "failed")):
            for call in self._history.of(verb):
                (task_id,) = call.arguments["ids"]
                task = self._stored.tasks.get(task_id)
                if call.is_done and call.value and task is not None and task.status != status:
                    yield Violation("lost", task_id, f"{call} and it is {task.status}")
        for call in self._history.of("resolve"):
            (task_id,) = call.arguments["ids"]
            is_there = task_id in self._stored.tasks
            is_true = (call.value is not None) == is_there
            if call.is_done and not is_true and not self._is_changed_after(task_id, call):
                yield Violation("lost", task_id, f"{call} and it is there: {is_there}")

    def _is_changed_after(self, task_id: str, resolved: Call) -> bool:
        return any(
            call.asked_at > resolved.asked_at and call.may_have_happened
            and (call.verb == "take" or task_id in call.arguments["ids"])
            for call in self._history.of("enqueue", "enqueue_many", "take")
        )  # fmt: skip

    # One live holder, one accepted result, no zombie's write

    def _twice(self) -> Iterator[Violation]:
        for task_id, moves in self._stored.moves.items():
            done = sum(move.to_status == "completed" for move in moves)
            if done > 1:
                yield Violation("twice", task_id, f"was completed {done} times")
        handed = Counter((one.task_id, one.token) for one in self._handed)
        settled = Counter((one.task_id, one.token) for one in self._written if one.verb in _REASONS)
        for what, counted in (("handed out", handed), ("settled", settled)):
            for (task_id, token), count in counted.items():
                if count > 1:
                    yield Violation("twice", task_id, f"token {token} was {what} {count} times")

    def _zombies(self) -> Iterator[Violation]:
        """No write is accepted that was asked for when a later lease was out already."""
        newer: dict[str, list[Leased]] = defaultdict(list)
        for lease in self._handed:
            newer[lease.task_id].append(lease)
        for wrote in self._written:
            for lease in newer[wrote.task_id]:
                if lease.token > wrote.token and _surely_before(lease.call, wrote.call):
                    yield Violation("zombie", wrote.task_id, f"{wrote} after {lease}")

    def _leases_of_each_task(self) -> Iterator[Violation]:
        for task_id, moves in self._stored.moves.items():
            claims = [move for move in moves if move.to_status == "running"]
            for one, following in pairwise(claims):
                yield from self._overlap(task_id, one, following)
            for one in claims:
                yield from self._end(task_id, one)

    def _overlap(self, task_id: str, claim: Move, following: Move) -> Iterator[Violation]:
        """The next lease is handed out only when this one has ended."""
        held = self._leases.get((task_id, claim.token))
        successor = self._leases.get((task_id, following.token))
        end = self._ends.get((task_id, claim.token))
        if held is None or successor is None or end is None:
            return
        if end.reason.startswith("lease_expired"):
            got_ms = successor.call.answered_clock_ms or 0
            is_early = got_ms < held.call.asked_clock_ms + held.lease_ms - _TICK_MS
        else:
            is_early = (successor.call.answered_at or 0) < self._earliest_end(held, end)
        if is_early:
            yield Violation("overlap", task_id, f"{successor} while {held} stood; it ended {end}")

    def _earliest_end(self, held: Leased, end: Move) -> float:
        """No lease can have ended before this moment."""
        wrote = self._settled.get((held.task_id, held.token))
        killed_at = self._history.killed_at.get(held.worker)
        if wrote is not None:
            return wrote.call.asked_at
        if end.actor == "worker":
            doubtful = [
                call.asked_at
                for call in self._history.of(*_REASONS, "complete_many")
                if call.may_have_happened and [held.task_id, held.token] in _named(call)
            ]
            if held.worker in self._history.left_at:
                # Who leaves gives back what it holds; what it asked for later came too late.
                doubtful.append(self._history.left_at[held.worker])
            if doubtful:
                return min(doubtful)
        if end.reason.startswith("crash") and killed_at is not None:
            return killed_at
        if killed_at is None and held.worker in self._history.left_at:
            return self._history.left_at[held.worker]
        return held.call.asked_at

    def _end(self, task_id: str, claim: Move) -> Iterator[Violation]:
        """Nobody's lease ends by a crash while it lives, or by its own hand without asking."""
        end = self._ends.get((task_id, claim.token))
        lease = self._leases.get((task_id, claim.token))
        if end is None or lease is None or lease.worker in self._history.killed_at:
            return
        has_left = lease.worker in self._history.left_at
        if end.reason.startswith("crash") and not has_left:
            yield Violation(
                "overlap", task_id, f"{lease.worker} lives and was declared dead: {end}"
            )
        if end.actor == "worker" and not has_left and not self._may_have_settled(lease):
            yield Violation("path", task_id, f"nobody was told of {end}")

    def _may_have_settled(self, lease: Leased) -> bool:
        return any(
            call.may_have_happened and [lease.task_id, lease.token] in _named(call)
            for call in self._history.of(*_REASONS, "complete_many")
        )


def _leases(call: Call) -> Iterator[Leased]:
    for task_id, token, attempt, lease_ms in call.value if call.is_done else ():
        yield Leased(call.worker, task_id, token, attempt, lease_ms, call)


def _named(call: Call) -> list[list[Any]]:
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
        ((task_id, token),) = _named(call)
        yield Wrote(call.verb, task_id, token, call.arguments.get("result"), call)


def _surely_before(one: Call, other: Call) -> bool:
    return one.answered_at is not None and one.answered_at < other.asked_at


def _differs(text: str | None, value: Any) -> bool:
    return bool((None if text is None else json.loads(text)) != value)


def words(found: Iterable[Violation], at_most: int = 5) -> str:
    """The first few violations in words."""
    listed = [str(one) for one in found]
    more = f" and {len(listed) - at_most} more" if len(listed) > at_most else ""
    return "; ".join(listed[:at_most]) + more
