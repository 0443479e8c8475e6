"""The operations of one transaction: each is run as if it were alone in it, and answered once."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from copy import copy
from typing import Any

import msgspec

from outlast.errors import OutlastError, StoreError
from outlast.store.commit.operation import Operation, Together
from outlast.store.transaction import Transaction

Members = Sequence[Operation[Any]]
# Puts a backend's error into our words, for the operation of this context.
Explain = Callable[[Exception, str], Exception]

_ENDED = "a statement ended Outlast's transaction; nothing was stored"


class Batch(msgspec.Struct, eq=False):
    """What was taken from the queue together, and how far its commit has come."""

    members: Members
    commit_sent: bool = False
    is_answered: bool = False

    def undecided(self) -> list[Operation[Any]]:
        """Those whose fate is open."""
        return [member for member in self.members if not member.is_decided]

    def succeed(self) -> None:
        """Its transaction is durable."""
        for member in self.members:
            if not member.is_decided:
                member.committed = member.error is None
                member.is_decided = True
                if member.is_abandoned and member.committed and member.in_doubt is not None:
                    member.in_doubt()

    def conclude(self, error: BaseException) -> None:
        """Whoever is undecided failed by this error, or is in doubt if the commit was sent."""
        for member in self.undecided():
            if self.commit_sent:
                member.doubt(error)
            else:
                member.fail(_own(error))

    def answer(self) -> None:
        """Wake the callers: one lock for each thread, one call into each loop."""
        self.is_answered = True
        by_loop: dict[Any, list[Any]] = {}
        for member in self.members:
            if member.asleep is not None:
                member.asleep.release()
            elif member.awaited is not None:
                loop, future = member.awaited
                by_loop.setdefault(loop, []).append(future)
        for loop, futures in by_loop.items():
            # Of a loop that was closed nobody waits any more.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(wake_futures, futures)


def _own(error: BaseException) -> BaseException:
    """A copy for one caller, who may add notes to it and raises it in a thread of its own."""
    if not isinstance(error, OutlastError):
        return error
    each = copy(error)
    each.__cause__ = error.__cause__
    return each


def wake_futures(futures: Iterable[Any]) -> None:
    """On their loop: let the coroutines go on that are not cancelled meanwhile."""
    for future in futures:
        if not future.done():
            future.set_result(None)


class _TransactionGone(Exception):
    """Everything is rolled back, or is to be; what comes next would commit on its own."""


def run_members(
    tx: Transaction, members: Members, explain: Explain, *, merging: bool
) -> Members | None:
    """Run each member; None when the whole transaction is over, and who is left must run again.

    A member's error is its own: it is rolled back to its savepoint, which is not needed where
    nobody else is to be protected. Returns whose answers hang on the commit, if there is anything
    to be committed.
    """
    try:
        if len(members) == 1:
            _run_one(tx, members[0], explain)
        else:
            for member in _run_alike(tx, members) if merging else members:
                tx.savepoint()
                if not _run_one(tx, member, explain):
                    tx.rollback_to_savepoint()
                tx.release_savepoint()
    except _TransactionGone:
        return None
    live = [member for member in members if not member.is_decided]
    return live if any(member.error is None for member in live) else ()


def _run_one(tx: Transaction, member: Operation[Any], explain: Explain) -> bool:
    """Whether it has no error; one that brings all of the transaction down is decided by it."""
    try:
        member.answer, member.error = member.run(tx), None
        if not tx.in_transaction:
            raise StoreError(_ENDED)
    except Exception as error:
        member.error = explain(error, member.context)
        if not tx.in_transaction:
            member.is_decided = True
            raise _TransactionGone from error
        return False
    return True


def _run_alike(tx: Transaction, members: Members) -> Members:
    """Those of one kind at once; returns whoever has to be run one by one."""
    kinds: dict[Together | None, list[Operation[Any]]] = {}
    for member in members:
        kinds.setdefault(member.together, []).append(member)
    merged: list[Together | None] = [
        together
        for together, alike in kinds.items()
        if together is not None
        and len(alike) > 1
        and _run_together(tx, together, alike, is_all=len(kinds) == 1)
    ]
    return [member for member in members if member.together not in merged]


def _run_together(tx: Transaction, together: Together, alike: Members, *, is_all: bool) -> bool:
    """One pass for all that are alike; on any error they are left to run one by one.

    A batch of one kind needs no savepoint: the error ends its transaction.
    """
    if not is_all:
        tx.savepoint()
    is_done = True
    try:
        results = together(tx, [member.inputs for member in alike])
        for member, result in zip(alike, results, strict=True):
            member.answer, member.error = result, None
    except Exception as error:
        if is_all or not tx.in_transaction:
            raise _TransactionGone from error
        tx.rollback_to_savepoint()
        is_done = False
    if not is_all:
        tx.release_savepoint()
    return is_done
