"""The invariants of leases: one live holder, one accepted result, no zombie's write."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from outlast_lab.acts import FORCING, asked_by, forced
from outlast_lab.audited import is_operators
from outlast_lab.history import Call, History
from outlast_lab.stored import Move, Stored
from outlast_lab.wholeness import Violation
from outlast_lab.writes import REASONS, Leased, Writes, claims_and_ends, named

# Leases are counted in whole milliseconds, cut off at both ends.
_TICK_MS = 2


class Holding:
    """Holds what was handed out, and to whom, against the moves in the store."""

    def __init__(self, history: History, stored: Stored, writes: Writes, is_steady: bool) -> None:
        self._history = history
        self._stored = stored
        self._writes = writes
        self._is_steady = is_steady
        self._claims, self._ends = claims_and_ends(stored)
        self._asked_by = asked_by(history)

    def all(self) -> Iterator[Violation]:
        """Every promise about leases that is broken."""
        yield from self._unasked()
        yield from self._twice()
        yield from self._zombies()
        yield from self._half_settled()
        for task_id, moves in self._stored.moves.items():
            claims = [move for move in moves if move.to_status == "running"]
            for one, following in pairwise(claims):
                yield from self._overlap(task_id, one, following)
            for one in claims:
                yield from self._end(task_id, one)
            yield from self._early(task_id, moves)

    def _unasked(self) -> Iterator[Violation]:
        """Nothing is claimed for one who was refused, or was handed something else.

        Given back uncharged, it did no harm: a claim may come too late for an object that closes.
        """
        asked: dict[str, bool] = defaultdict(bool)
        for call in self._history.of("claim", "prefetch"):
            asked[call.worker] |= call.may_have_happened and not call.is_done
        for (task_id, token), claim in self._claims.items():
            is_known = (task_id, token) in self._writes.leases
            is_explained = claim.worker not in asked or asked[claim.worker]
            end = self._ends.get((task_id, token))
            is_undone = end is not None and end.reason == "released"
            if not (is_known or is_explained or is_undone):
                yield Violation("phantom", task_id, f"{claim} and nobody was handed it")

    def _twice(self) -> Iterator[Violation]:
        for task_id, moves in self._stored.moves.items():
            done = sum(move.to_status == "completed" for move in moves)
            if done > 1:
                yield Violation("twice", task_id, f"was completed {done} times")
        handed = Counter((one.task_id, one.token) for one in self._writes.handed)
        settles = (one for one in self._writes.written if one.verb in REASONS)
        settled = Counter((one.task_id, one.token) for one in settles)
        for what, counted in (("handed out", handed), ("settled", settled)):
            for (task_id, token), count in counted.items():
                if count > 1:
                    yield Violation("twice", task_id, f"token {token} was {what} {count} times")

    def _zombies(self) -> Iterator[Violation]:
        """No write is accepted that was asked for when the lease was over already."""
        over: dict[str, list[tuple[int, Call]]] = defaultdict(list)
        for lease in self._writes.handed:
            over[lease.task_id].append((lease.token - 1, lease.call))
        for (task_id, token), wrote in self._writes.settled.items():
            over[task_id].append((token, wrote.call))
        for call in self._history.of("cancel", "fail_task"):
            if call.is_done and call.value:
                over[call.arguments["ids"][0]].append((1 << 62, call))
        for call in self._history.of(*FORCING):
            for task_id in forced(call):
                over[task_id] += ((one, call) for one in self._handed_before(task_id, call))
        for wrote in self._writes.written:
            for token, call in over[wrote.task_id]:
                if wrote.token <= token and call is not wrote.call and _before(call, wrote.call):
                    yield Violation("zombie", wrote.task_id, f"{wrote} after {call}")

    def _handed_before(self, task_id: str, call: Call) -> Iterator[int]:
        """The tokens of a task that were out when a call was made."""
        return (
            lease.token
            for lease in self._writes.handed
            if lease.task_id == task_id and _before(lease.call, call)
        )

    def _half_settled(self) -> Iterator[Violation]:
        """A call that ends many leases ends all that are still held, or none."""
        for call in self._history.of("complete_many"):
            if call.is_done or not call.may_have_happened:
                continue
            proofs = [(task_id, token) for task_id, token in call.arguments["leases"]]
            ends = [self._ends.get(proof) for proof in proofs]
            is_done = any(end is not None and end.reason == "completed" for end in ends)
            left = [
                task_id
                for (task_id, token), end in zip(proofs, ends, strict=True)
                if (end is None and self._is_held(task_id, token))
                or (end is not None and end.reason.startswith("crash"))
            ]
            if is_done and left:
                yield Violation("torn", left[0], f"was left out by {call}")

    def _is_held(self, task_id: str, token: int) -> bool:
        task = self._stored.tasks.get(task_id)
        return task is not None and task.status == "running" and task.token == token

    def _lasts_until_ms(self, held: Leased, before: Call | None) -> int:
        """By the queue's clock, no earlier than this does the lease run out."""
        ends = [held.call.asked_clock_ms + held.lease_ms]
        for wrote in self._writes.written:
            is_its_own = (wrote.task_id, wrote.token) == (held.task_id, held.token)
            is_in_time = before is None or _before(wrote.call, before)
            if wrote.verb == "renew" and is_its_own and is_in_time:
                ends.append(wrote.call.asked_clock_ms + held.lease_ms)
        return max(ends) - _TICK_MS

    def _overlap(self, task_id: str, claim: Move, following: Move) -> Iterator[Violation]:
        """The next lease is handed out only when this one has ended."""
        held = self._writes.leases.get((task_id, claim.token))
        successor = self._writes.leases.get((task_id, following.token))
        end = self._ends.get((task_id, claim.token))
        if held is None or successor is None or end is None:
            return
        was_taken = end.reason.startswith("taken") and not is_operators(end.actor)
        if was_taken or end.reason.startswith("lease_expired"):
            got_ms = successor.call.answered_clock_ms or 0
            is_early = got_ms < self._lasts_until_ms(held, successor.call)
            is_early = is_early and not self._may_be_forced(held)
        else:
            is_early = (successor.call.answered_at or 0) < self._earliest_end(held, end)
        if is_early:
            yield Violation("overlap", task_id, f"{successor} while {held} stood; it ended {end}")

    def _earliest_end(self, held: Leased, end: Move) -> float:
        """No lease can have ended before this moment."""
        wrote = self._writes.settled.get((held.task_id, held.token))
        killed_at = self._history.killed_at.get(held.worker)
        if wrote is not None:
            return wrote.call.asked_at
        if is_operators(end.actor):
            asked = (call for call in self._asked_by[end.actor] if not _before(call, held.call))
            return min((call.asked_at for call in asked), default=held.call.asked_at)
        if end.actor == "worker":
            doubtful = [call.asked_at for call in self._settling(held)]
            if held.worker in self._history.left_at:
                # Who leaves gives back what it holds; what it asked for later came too late.
                doubtful.append(self._history.left_at[held.worker])
            if doubtful:
                return min(doubtful)
        if _is_death(end) and killed_at is not None:
            return killed_at
        if killed_at is None and held.worker in self._history.left_at:
            return self._history.left_at[held.worker]
        return held.call.asked_at

    def _end(self, task_id: str, claim: Move) -> Iterator[Violation]:
        """Nobody's lease ends by a crash while it lives, too early, or unasked by its own hand."""
        end = self._ends.get((task_id, claim.token))
        lease = self._writes.leases.get((task_id, claim.token))
        if end is None or lease is None:
            return
        has_left = lease.worker in self._history.left_at
        was_killed = lease.worker in self._history.killed_at
        if _is_death(end) and not (has_left or was_killed or is_operators(end.actor)):
            yield Violation(
                "overlap", task_id, f"{lease.worker} lives and was declared dead: {end}"
            )
        if end.actor == "worker" and not has_left and not any(self._settling(lease)):
            yield Violation("path", task_id, f"nobody was told of {end}")

    def _early(self, task_id: str, moves: Sequence[Move]) -> Iterator[Violation]:
        """No lease is called expired within less than its length, by the stamps of the moves.

        A stamp that was lifted to the one before it, so that stamps never fall, tells nothing.
        """
        task = self._stored.tasks.get(task_id)
        before = None if task is None else task.created_at
        for one, following in pairwise(moves):
            lease = self._writes.leases.get((task_id, one.token))
            is_pair = one.to_status == "running" and following.reason.startswith("lease_expired")
            is_told = lease is not None and is_pair and not self._may_be_forced(lease)
            if lease and is_told and self._is_steady and one.at and following.at:
                is_exact = before is not None and one.at > before
                if is_exact and following.at - one.at < lease.lease_ms - _TICK_MS:
                    yield Violation("overlap", task_id, f"{lease} was called expired: {following}")
            before = one.at

    def _may_be_forced(self, lease: Leased) -> bool:
        """Whether somebody took leases away by force once this one was out: that is no expiry."""
        return any(
            call.arguments["force"] and call.may_have_happened and not _before(call, lease.call)
            for call in self._history.of("reclaim_stale")
        )

    def _settling(self, lease: Leased) -> Iterator[Call]:
        """The calls that may have ended a lease."""
        return (
            call
            for call in self._history.of(*REASONS, "complete_many")
            if call.may_have_happened and [lease.task_id, lease.token] in named(call)
        )


def _is_death(end: Move) -> bool:
    return end.reason.startswith("crash") or end.reason == "never_started"


def _before(one: Call, other: Call) -> bool:
    return one.answered_at is not None and one.answered_at < other.asked_at
