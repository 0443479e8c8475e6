"""Every error Outlast raises, in one tree; the name states the fact, the message says what to do.

OutlastError
├── InvalidInput                 a call was refused before anything was written
│   └── PayloadRejected          a payload, result or snapshot is not storable JSON
├── TaskNotFound                 no such task in this store
├── GroupNotFound                no such group in this store
├── InvalidTransition            the task cannot move that way from where it is
├── IdempotencyConflict          the key was used for another request
├── LeaseLost                    somebody else decides about this task now
│   └── LeaseInherited           the lease belongs to the process this one was forked from
├── TaskFailed                   the task that was waited for failed
├── TaskCancelled                the task that was waited for was cancelled
├── LockHeld                     another holder has the named lock
├── LockLost                     the named lock is not ours any more
├── GiveBack                     raise it in a handler: the task goes back unspent
├── PermanentError               raise it in your own code: the task fails without retries
└── StoreError                   the file, the engine under it, or our grip on it
    ├── StoreNotFound            a read verb met a store that does not exist
    ├── StoreUnwritable          the store or its folder cannot be written
    ├── NotAStore                the file is something else
    ├── NetworkFilesystem        the file lies where locks cannot be trusted
    ├── EngineTooOld             this SQLite is known to damage files
    ├── SchemaError              the file's schema and this library do not fit
    │   ├── SchemaNewer          the file was written by a later Outlast
    │   └── MigrationRefused     the file is in use and cannot be migrated now
    ├── DeclaredDead             another process took this one for dead and took its tasks back
    ├── StoreBusy                another process has the store, or one of its locks, to itself
    ├── QueueFull                too many operations wait to be stored
    ├── QueueStalled             a process keeps others from writing; its pid is named
    ├── SecondSqliteCopy         something else in this process opened the file: locks are gone
    ├── StoreReplaced            the file on disk is no longer the file we opened
    ├── StatementRefused         one of the caller's own statements may not run here
    ├── PayloadDamaged           stored bytes no longer match their checksum
    ├── DatabaseError            the engine refused an operation; context says which
    ├── RecoveryFailed           the store could not be made ready
    └── OutcomeUnknown           a commit may or may not have happened; ask resolve(id)
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any


class OutlastError(Exception):
    """The root of everything Outlast raises."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Copied and pickled as it is: made anew, its message would become part of another."""
        return _remade, (type(self), self.args), self.__dict__


def _remade(error: type[OutlastError], args: tuple[Any, ...]) -> OutlastError:
    return error.__new__(error, *args)


class InvalidInput(OutlastError, ValueError):
    """The call was refused before anything was written."""


class PayloadRejected(InvalidInput):
    """The value cannot be stored as JSON within the limits."""


class TaskNotFound(OutlastError, LookupError):
    """No task has this id."""

    def __init__(self, task_id: str) -> None:
        super().__init__(f"no task {task_id!r} in this store; check the id and the store's path")
        self.task_id = task_id


class GroupNotFound(OutlastError, LookupError):
    """No task was ever enqueued in this group."""

    def __init__(self, group: str) -> None:
        super().__init__(f"no group {group!r} in this store; enqueue a task with group={group!r}")
        self.group = group


class InvalidTransition(OutlastError):
    """The task cannot move that way from the state it is in."""


class IdempotencyConflict(OutlastError):
    """The idempotency key stands for another request."""

    def __init__(self, key: str, task_id: str | None) -> None:
        what = (
            f"was already used for another request (task {task_id}); send the same kind and"
            " payload, or use a new key"
            if task_id
            else "was used for a task that was removed; wait until it expires, or use a new key"
        )
        super().__init__(f"idempotency key {key!r} {what}")
        self.key = key
        self.task_id = task_id


class LeaseLost(OutlastError):
    """The task was put back, cancelled, or settled by somebody else: stop working on it."""

    def __init__(self, task_ids: str | Sequence[str], detail: str = "") -> None:
        self.task_ids = (task_ids,) if isinstance(task_ids, str) else tuple(task_ids)
        which = ", ".join(self.task_ids[:5]) + (" …" if len(self.task_ids) > 5 else "")
        super().__init__(
            f"the lease on {which} is no longer current{detail};"
            " abandon this attempt, its writes are refused"
        )


class LeaseInherited(LeaseLost):
    """A forked child tried to use its parent's lease."""

    def __init__(self, task_id: str) -> None:
        super().__init__(task_id, ": it belongs to the process that forked this one")


class TaskFailed(OutlastError):
    """The task that was waited for failed for good."""

    def __init__(self, task_id: str, error: str | None) -> None:
        super().__init__(f"task {task_id} failed: {error or 'no reason was given'}")
        self.task_id = task_id
        self.error = error


class TaskCancelled(OutlastError):
    """The task that was waited for was cancelled."""

    def __init__(self, task_id: str) -> None:
        super().__init__(f"task {task_id} was cancelled")
        self.task_id = task_id


class LockHeld(OutlastError):
    """Another holder has the named lock."""

    def __init__(
        self, name: str, holder: str, until: datetime, *, has_waited: bool = False
    ) -> None:
        advice = "wait longer" if has_waited else "give wait= the time you can wait"
        super().__init__(
            f"lock {name!r} is held by {holder} until {until:%H:%M:%S} UTC unless it is extended;"
            f" try again later, or {advice}"
        )
        self.name = name
        self.holder = holder
        self.until = until

    def after_waiting(self) -> "LockHeld":
        """The same for one who has waited for it in vain."""
        return LockHeld(self.name, self.holder, self.until, has_waited=True)


class LockLost(OutlastError):
    """The named lock ran out or was freed by somebody else: stop what it was to guard."""

    def __init__(self, name: str, detail: str = "") -> None:
        super().__init__(
            f"lock {name!r} is not held any more{detail}; stop what it guards, others may have it"
        )
        self.name = name


class GiveBack(OutlastError):
    """Raise this in a handler that cannot go on now: the task goes back, and nothing is charged."""


class PermanentError(OutlastError):
    """Raise or pass this to fail a task at once, whatever retries are left."""


class StoreError(OutlastError):
    """Something about the store itself."""


class DeclaredDead(StoreError):
    """Another process took this incarnation for dead and said so in the table."""


class StoreNotFound(StoreError):
    """A read verb never creates a store."""


class StoreUnwritable(StoreError):
    """The store, or the folder it lies in, cannot be written."""


class NotAStore(StoreError):
    """The file exists but is not an Outlast store."""


class NetworkFilesystem(StoreError):
    """SQLite's locks cannot be trusted on this file system."""


class EngineTooOld(StoreError):
    """This SQLite version is known to lose commits under concurrent flushes."""


class SchemaError(StoreError):
    """The file's schema and this library do not fit."""


class SchemaNewer(SchemaError):
    """The file was written by a later version of Outlast."""


class MigrationRefused(SchemaError):
    """The store is in use; its schema cannot be changed under its users."""


class StoreBusy(StoreError):
    """Another process has the store, or one of its locks, to itself for now."""


class QueueFull(StoreError):
    """Too many operations wait to be stored already."""


class QueueStalled(StoreError):
    """A process keeps others from writing and does not let go."""

    def __init__(
        self, pid: int | None, waited_seconds: float, state: str = "", is_own: bool = False
    ) -> None:
        who = f"process {pid}" if pid else "a process that could not be named"
        advice = "resume or end it, then try again"
        if is_own:
            who, advice = "this very process", "end the transaction on your own connection first"
        super().__init__(
            f"{who}{f' ({state})' if state else ''} has kept others from writing for"
            f" {waited_seconds:.1f} s; {advice}"
        )
        self.pid = pid
        self.state = state


class SecondSqliteCopy(StoreError):
    """The kernel dropped our locks because this process opened the file by other means."""


class StoreReplaced(StoreError):
    """The database or its WAL on disk is no longer the file that was opened."""


class StatementRefused(StoreError):
    """One of the caller's own statements may not run inside Outlast's transaction."""


class PayloadDamaged(StoreError):
    """Stored bytes do not match the checksum written with them."""


class DatabaseError(StoreError):
    """The engine refused an operation."""

    def __init__(
        self, context: str, cause: BaseException, advice: str = "", *, is_constraint: bool = False
    ) -> None:
        super().__init__(f"{context} failed: {type(cause).__name__}: {cause}{advice}")
        self.context = context
        self.is_constraint = is_constraint


class RecoveryFailed(StoreError):
    """The store could not be made ready to serve."""


class OutcomeUnknown(StoreError):
    """A commit was sent and its fate is not known; nothing was acknowledged."""

    def __init__(self, task_ids: Sequence[str], cause: object) -> None:
        self.task_ids = tuple(task_ids)
        which = ", ".join(self.task_ids[:5]) + (" …" if len(self.task_ids) > 5 else "")
        super().__init__(
            f"whether the commit for {which or 'this operation'} happened is not known"
            f" ({cause}); ask resolve(id) before you repeat it"
        )
