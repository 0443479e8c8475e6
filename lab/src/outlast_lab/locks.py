"""Named locks on the record: the calls that experiments make, and the invariants of what they got.

A grant is certain from its answer on, and over at the latest when its holder asks to give it back,
ends, or has had its time; in between nobody else may be given the lock.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from outlast.domain.duration import Duration, duration_ms
from outlast_lab.history import Call, History
from outlast_lab.stored import Stored
from outlast_lab.wholeness import Violation
from outlast_lab.witness import Witness

if TYPE_CHECKING:
    from outlast.app.lease import Lease
    from outlast.app.named_lock import NamedLock

ACQUIRE, EXTEND, RELEASE, FORCE = "lock_acquire", "lock_extend", "lock_release", "lock_force"
MARK_DEAD = "mark_dead"
NEVER = float("inf")


class Locker:
    """The verbs of named locks, as one worker uses them."""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness

    def acquire(self, name: str, ttl: Duration, wait: Duration = 0) -> "NamedLock | None":
        """Ask for a lock; None if it was not handed out."""
        witness = self._witness
        lock = witness.app.lock(name, ttl, wait, holder=witness.worker)
        return lock if self.again(lock, ttl) else None

    def again(self, lock: "NamedLock", ttl: Duration) -> bool:
        """Ask for a lock by an object that may have it."""
        arguments = {"name": lock.name, "ttl_ms": duration_ms(ttl, "ttl")}
        is_ours = self._witness.call(
            ACQUIRE, arguments, lock.acquire, lambda is_ours: lock.token if is_ours else None
        )
        return bool(is_ours)

    def extend(self, lock: "NamedLock | None", seconds: Duration) -> bool:
        """Hold it for longer."""
        if lock is None:
            return False
        arguments = _held(lock) | {"ttl_ms": duration_ms(seconds, "seconds")}
        return bool(
            self._witness.call(EXTEND, arguments, lambda: lock.extend(seconds), lambda yes: yes)
        )

    def release(self, lock: "NamedLock | None") -> bool:
        """Give it back."""
        if lock is None:
            return False
        return bool(self._witness.call(RELEASE, _held(lock), lock.release, lambda yes: yes))

    def free(self, name: str) -> bool:
        """Free it as an operator, whoever holds it."""
        witness = self._witness
        return bool(
            witness.call(
                FORCE,
                {"name": name},
                lambda: witness.app.release_lock(name, by=witness.worker),
                lambda yes: yes,
            )
        )

    def next_task(self, name: str, **options: Any) -> "Lease | None":
        """One task together with a lock; on the record it is a claim."""
        witness = self._witness

        def told(lease: "Lease | None") -> Any:
            return [[lease.task_id, lease.token, lease.attempt, lease.lease_ms]] if lease else []

        lease: Lease | None = witness.call(
            "claim",
            {"limit": 1, "lock": name, **options},
            lambda: witness.app.next_with_lock(witness.worker, lock=name, **options),
            told,
        )
        return lease

    def take_a_turn(self, dice: random.Random) -> None:
        """Take one of a few locks, perhaps keep it for longer, and mostly give it back."""
        lock = self.acquire(some_lock(dice), dice.choice([0.5, 3]), dice.choice([0, 0, 0.2]))
        if lock is not None and dice.random() < 0.1:
            self.again(lock, lock.wish.ttl_ms / 1000)
        if dice.random() < 0.3:
            self.extend(lock, dice.choice([0.2, 2]))
        if dice.random() < 0.8:
            self.release(lock)


def some_lock(dice: random.Random) -> str:
    """One of the few that a crowd quarrels about."""
    return f"lock {dice.randrange(3)}"


def _held(lock: "NamedLock") -> dict[str, Any]:
    return {"name": lock.name, "token": lock.token}


@dataclass(slots=True)
class Grant:
    """A lock that somebody was told to have: since when, and how long for certain and at most."""

    name: str
    token: int
    worker: str
    asked_at: float
    answered_at: float
    answered_clock_ms: int
    surely_until_ms: int
    at_most_until_ms: int
    ends: list[Call] = field(default_factory=list)

    def ended_at(self, history: History, forced: list[Call]) -> float:
        """The first moment at which it may have been over before its time."""
        moments = [
            *(call.asked_at for call in self.ends if call.may_have_happened),
            *(
                call.asked_at
                for call in forced
                if call.arguments.get("name", self.name) == self.name
                and (call.answered_at or NEVER) > self.asked_at
            ),
            history.killed_at.get(self.worker, NEVER),
            history.left_at.get(self.worker, NEVER),
        ]
        return min(moments, default=NEVER)


class Locks:
    """What a history and a store say of locks, held against each other."""

    def __init__(self, history: History, stored: Stored) -> None:
        self._history = history
        self._stored = stored
        self._grants: dict[tuple[str, int], Grant] = {}
        self._claimed_twice: list[Violation] = []
        # Who is declared dead loses every lock.
        forced = history.of(FORCE, MARK_DEAD)
        self._forced = [call for call in forced if call.may_have_happened]
        for call in history.of(ACQUIRE):
            self._note(call)
        for call in history.of(EXTEND, RELEASE):
            self._note_end(call)

    def _note(self, call: Call) -> None:
        token, name = call.value if call.is_done else None, call.arguments["name"]
        if token is None:
            return
        ms, answered_ms = call.arguments["ttl_ms"], call.answered_clock_ms or 0
        known = self._grants.get((name, token))
        if known is None:
            self._grants[name, token] = Grant(
                name, token, call.worker, call.asked_at, call.answered_at or 0.0, answered_ms,
                call.asked_clock_ms + ms, answered_ms + ms,
            )  # fmt: skip
        elif known.worker != call.worker:
            told = f"token {token} was given to {known.worker} and to {call.worker}"
            self._claimed_twice.append(Violation("twice", name, told))
        else:
            self._lengthen(known, call)

    def _lengthen(self, grant: Grant, call: Call) -> None:
        ms = call.arguments["ttl_ms"]
        grant.surely_until_ms = max(grant.surely_until_ms, call.asked_clock_ms + ms)
        grant.at_most_until_ms = max(grant.at_most_until_ms, (call.answered_clock_ms or 0) + ms)

    def _note_end(self, call: Call) -> None:
        grant = self._grants.get((call.arguments["name"], call.arguments["token"]))
        if grant is None:
            return
        if call.verb == RELEASE:
            grant.ends.append(call)
        if call.is_done and call.value and call.asked_clock_ms >= grant.at_most_until_ms:
            told = f"token {grant.token} was over, and {call.worker} could {call.verb}"
            self._claimed_twice.append(Violation("zombie", grant.name, told))
        elif call.verb == EXTEND and call.is_done and call.value:
            self._lengthen(grant, call)
        elif call.verb == EXTEND and call.may_have_happened and not call.is_done:
            ms = call.arguments["ttl_ms"]
            grant.at_most_until_ms = max(grant.at_most_until_ms, call.asked_clock_ms + 2 * ms)

    def all(self) -> Iterator[Violation]:
        """Every promise about locks that was broken."""
        yield from self._claimed_twice
        by_name: dict[str, list[Grant]] = {}
        for grant in sorted(self._grants.values(), key=lambda one: one.token):
            by_name.setdefault(grant.name, []).append(grant)
        for grants in by_name.values():
            yield from self._overlaps(grants)
            yield from self._fallen(grants)
        yield from self._lost()

    def _overlaps(self, grants: list[Grant]) -> Iterator[Violation]:
        """A higher token was given out later, so the lower one had to be over by then."""
        for number, first in enumerate(grants):
            over_at = first.ended_at(self._history, self._forced)
            for later in grants[number + 1 :]:
                if later.answered_at < over_at and later.answered_clock_ms < first.surely_until_ms:
                    yield Violation("overlap", first.name, f"{later} while {first}")

    def _fallen(self, grants: list[Grant]) -> Iterator[Violation]:
        """Tokens rise with time."""
        for number, first in enumerate(grants):
            for later in grants[number + 1 :]:
                if later.answered_at < first.asked_at:
                    told = f"token {first.token} came after {later.token}"
                    yield Violation("token", first.name, told)

    def _lost(self) -> Iterator[Violation]:
        """What was acknowledged is stored."""
        calls = self._history.calls
        clock_ms = max(
            (max(one.asked_clock_ms, one.answered_clock_ms or 0) for one in calls), default=0
        )
        for grant in self._grants.values():
            if grant.token > self._stored.lock_token:
                told = f"token {grant.token} was given, and the store is at"
                yield Violation("lost", grant.name, f"{told} {self._stored.lock_token}")
            stored = self._stored.locks.get(grant.name)
            is_there = stored is not None and stored.token == grant.token
            if any(call.is_done and call.value for call in grant.ends):
                if is_there:
                    yield Violation("lost", grant.name, f"token {grant.token} was given back")
            elif (
                not is_there
                and grant.ended_at(self._history, self._forced) == NEVER
                and clock_ms < grant.surely_until_ms
            ):
                yield Violation("lost", grant.name, f"{grant} and the store says {stored}")
