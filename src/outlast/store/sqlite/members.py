"""Running the members of a group inside one transaction, each as if it were alone in it."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw

from outlast.errors import OutlastError, StoreError
from outlast.store.sqlite.connection import explained
from outlast.store.sqlite.operation import Operation, Together
from outlast.store.sqlite.pending import Pending
from outlast.store.sqlite.transaction import Transaction

_OWN_ERRORS = (OutlastError, apsw.Error)


def may_be_a_signals() -> bool:
    """Whether an error of no kind of ours may be a signal handler's, which is the leader's."""
    return threading.current_thread() is threading.main_thread()


class _TransactionGone(Exception):
    """The engine rolled everything back; what comes next would commit on its own."""


def run_members(
    tx: Transaction, members: Sequence[Pending[Any]], path: Path, merging: bool
) -> bool:
    """Run each member; False when one of them brought the whole transaction down.

    A member's error is its own: it is rolled back to its savepoint and decided at once. The
    others' results count only once the transaction is committed.
    """
    runner = _Runner(tx, path)
    try:
        if len(members) == 1:
            runner.run_alone(members[0])
            return True
        for together, alike in _alike(members).items() if merging else ():
            if together is not None and len(alike) > 1:
                runner.run_together(together, alike)
        for member in members:
            if not runner.has_run(member):
                runner.run_in_savepoint(member)
    except _TransactionGone:
        return False
    return True


def _alike(members: Sequence[Pending[Any]]) -> dict[Together | None, list[Pending[Any]]]:
    found: dict[Together | None, list[Pending[Any]]] = {}
    for member in members:
        operation = member.operation
        if isinstance(operation, Operation):
            found.setdefault(operation.together, []).append(member)
    return found


class _Runner:
    def __init__(self, tx: Transaction, path: Path) -> None:
        self._connection = tx.connection
        self._tx = tx
        self._path = path
        self._merged: set[int] = set()

    def has_run(self, member: Pending[Any]) -> bool:
        return id(member) in self._merged

    def run_alone(self, member: Pending[Any]) -> None:
        """No savepoint is needed where nobody else is to be protected."""
        try:
            member.ran(member.operation.run(self._tx))  # type: ignore[union-attr]
            self._refuse_lost_transaction()
        except _OWN_ERRORS as error:
            member.refuse(self._explained(member, error))
        except Exception as error:
            if may_be_a_signals():
                raise
            member.refuse(error)

    def run_in_savepoint(self, member: Pending[Any]) -> None:
        execute = self._tx.control
        execute("SAVEPOINT member")
        try:
            member.ran(member.operation.run(self._tx))  # type: ignore[union-attr]
            self._refuse_lost_transaction()
        except _OWN_ERRORS as error:
            if not self._connection.in_transaction:
                member.fail(self._explained(member, error))
                raise _TransactionGone from error
            member.refuse(self._explained(member, error))
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

    def run_together(self, together: Together, members: Sequence[Pending[Any]]) -> None:
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
            for member, result in zip(members, results, strict=True):
                member.ran(result)
                self._merged.add(id(member))
        execute("RELEASE member")

    def _refuse_lost_transaction(self) -> None:
        if not self._connection.in_transaction:
            raise StoreError("a statement ended Outlast's transaction; nothing was stored")

    def _explained(self, member: Pending[Any], error: Exception) -> Exception:
        if not isinstance(error, apsw.Error):
            return error
        explanation = explained(error, member.operation.context, self._path)
        explanation.__cause__ = error
        return explanation
