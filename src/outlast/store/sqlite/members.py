"""Running the members of a group inside one transaction, each as if it were alone in it."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw

from outlast.errors import OutlastError, StoreError
from outlast.store.sqlite.connect import explained
from outlast.store.sqlite.operation import Together
from outlast.store.sqlite.pending import DECIDED, Pending, all_ran
from outlast.store.sqlite.transaction import Transaction

_OWN_ERRORS = (OutlastError, apsw.Error)
_ENDED = "a statement ended Outlast's transaction; nothing was stored"


def may_be_a_signals() -> bool:
    """Whether an error of no kind of ours may be a signal handler's, which is the leader's."""
    return threading.current_thread() is threading.main_thread()


class _TransactionGone(Exception):
    """Everything is rolled back, or is to be; what comes next would commit on its own."""


def run_alone(
    tx: Transaction, members: Sequence[Pending[Any]], path: Path
) -> Sequence[Pending[Any]]:
    """Run the only member; no savepoint is needed where nobody else is to be protected.

    Returns whom there is something to be committed of.
    """
    (member,) = members
    try:
        member.ran(member.operation.run(tx))  # type: ignore[union-attr]
        if tx.connection.in_transaction:
            return members
        raise StoreError(_ENDED)
    except _OWN_ERRORS as error:
        member.refuse(_explained(member, error, path))
    except Exception as error:
        if may_be_a_signals():
            raise
        member.refuse(error)
    return ()


def run_members(
    tx: Transaction, members: Sequence[Pending[Any]], path: Path, merging: bool
) -> Sequence[Pending[Any]] | None:
    """Run each member; None when the whole transaction is over, and everybody is to run again.

    A member's error is its own: it is rolled back to its savepoint and decided at once. The
    others' results count only once the transaction is committed. Returns whose answers hang on
    that, if there is anything to be committed.
    """
    runner = _Runner(tx, path)
    try:
        left = runner.run_alike(members) if merging else members
        for member in left:
            runner.run_in_savepoint(member)
    except _TransactionGone:
        return None
    live = [member for member in members if member.stage != DECIDED]
    return live if any(member.error is None for member in live) else ()


class _Runner:
    def __init__(self, tx: Transaction, path: Path) -> None:
        self._connection = tx.connection
        self._tx = tx
        self._path = path

    def run_alike(self, members: Sequence[Pending[Any]]) -> list[Pending[Any]]:
        """Those of one kind at once; returns whoever has to be run one by one."""
        only = {one.operation.together for one in members}  # type: ignore[union-attr]
        if len(only) == 1 and None not in only:
            self._run_all_together(only.pop(), members)
            return []
        kinds: dict[Together | None, list[Pending[Any]]] = {}
        for member in members:
            kinds.setdefault(member.operation.together, []).append(member)  # type: ignore[union-attr]
        merged: list[Together | None] = [
            together
            for together, alike in kinds.items()
            if together is not None and len(alike) > 1 and self._run_together(together, alike)
        ]
        if len(merged) == len(kinds):
            return []
        return [one for one in members if one.operation.together not in merged]  # type: ignore[union-attr]

    def run_in_savepoint(self, member: Pending[Any]) -> None:
        execute = self._tx.control
        execute("SAVEPOINT member")
        try:
            member.ran(member.operation.run(self._tx))  # type: ignore[union-attr]
            if not self._connection.in_transaction:
                raise StoreError(_ENDED)
        except _OWN_ERRORS as error:
            if not self._connection.in_transaction:
                member.fail(_explained(member, error, self._path))
                raise _TransactionGone from error
            member.refuse(_explained(member, error, self._path))
            execute("ROLLBACK TO member")
        except Exception as error:
            if may_be_a_signals():
                # A signal handler's exception is the leader's; a fault of this operation is not.
                # The one is raised here, the other when its own caller runs the operation.
                member.stand_alone()
                raise
            member.refuse(error)
            execute("ROLLBACK TO member")
        execute("RELEASE member")

    def _run_all_together(self, together: Together | None, members: Sequence[Pending[Any]]) -> None:
        """A group of one kind needs no savepoint: an error ends it, and they run one by one."""
        assert together is not None
        try:
            results = together(self._tx, [one.operation.inputs for one in members])  # type: ignore[union-attr]
        except Exception as error:
            if not isinstance(error, _OWN_ERRORS) and may_be_a_signals():
                raise
            raise _TransactionGone from error
        all_ran(members, results)

    def _run_together(self, together: Together, members: Sequence[Pending[Any]]) -> bool:
        """One pass for all that are alike; on any error they are left to run one by one."""
        execute = self._tx.control
        execute("SAVEPOINT member")
        try:
            inputs = [member.operation.inputs for member in members]  # type: ignore[union-attr]
            results = together(self._tx, inputs)
        except _OWN_ERRORS as error:
            if not self._connection.in_transaction:
                raise _TransactionGone from error
            execute("ROLLBACK TO member")
        except Exception:
            if may_be_a_signals():
                raise
            execute("ROLLBACK TO member")
        else:
            all_ran(members, results)
            execute("RELEASE member")
            return True
        execute("RELEASE member")
        return False


def _explained(member: Pending[Any], error: Exception, path: Path) -> Exception:
    if not isinstance(error, apsw.Error):
        return error
    explanation = explained(error, member.operation.context, path)
    explanation.__cause__ = error
    return explanation
