"""Outlast: a crash-proof task queue for Python, in one SQLite file next to your program."""

from typing import TYPE_CHECKING, Any

from outlast.api import Outlast
from outlast.clock import Clock, Instant, SystemClock
from outlast.domain.lifecycle import Parked, Status
from outlast.domain.task import Checkpoint, Group, Move, Task
from outlast.engine.heal import Recovery, RecoveryStats
from outlast.engine.lease import Lease
from outlast.errors import (
    DatabaseError,
    EngineTooOld,
    GroupNotFound,
    IdempotencyConflict,
    InvalidInput,
    InvalidTransition,
    LeaseInherited,
    LeaseLost,
    LockHeld,
    MigrationRefused,
    NetworkFilesystem,
    NotAStore,
    OutcomeUnknown,
    OutlastError,
    PayloadDamaged,
    PayloadRejected,
    PermanentError,
    QueueFull,
    QueueStalled,
    RecoveryFailed,
    SchemaError,
    SchemaNewer,
    SecondSqliteCopy,
    StatementRefused,
    StoreBusy,
    StoreError,
    StoreNotFound,
    StoreReplaced,
    StoreUnwritable,
    TaskCancelled,
    TaskFailed,
    TaskNotFound,
)
from outlast.settings import Settings
from outlast.store.records import FlushResult, KeyRecord, SchemaReport

if TYPE_CHECKING:
    from outlast.aio import AsyncLease, AsyncOutlast

__version__ = "0.1.0"

__all__ = [
    "AsyncLease",
    "AsyncOutlast",
    "Checkpoint",
    "Clock",
    "DatabaseError",
    "EngineTooOld",
    "FlushResult",
    "Group",
    "GroupNotFound",
    "IdempotencyConflict",
    "Instant",
    "InvalidInput",
    "InvalidTransition",
    "KeyRecord",
    "Lease",
    "LeaseInherited",
    "LeaseLost",
    "LockHeld",
    "MigrationRefused",
    "Move",
    "NetworkFilesystem",
    "NotAStore",
    "OutcomeUnknown",
    "Outlast",
    "OutlastError",
    "Parked",
    "PayloadDamaged",
    "PayloadRejected",
    "PermanentError",
    "QueueFull",
    "QueueStalled",
    "Recovery",
    "RecoveryFailed",
    "RecoveryStats",
    "SchemaError",
    "SchemaNewer",
    "SchemaReport",
    "SecondSqliteCopy",
    "Settings",
    "StatementRefused",
    "Status",
    "StoreBusy",
    "StoreError",
    "StoreNotFound",
    "StoreReplaced",
    "StoreUnwritable",
    "SystemClock",
    "Task",
    "TaskCancelled",
    "TaskFailed",
    "TaskNotFound",
    "__version__",
]


def __getattr__(name: str) -> Any:
    """asyncio takes as long to import as all of Outlast, so only who asks for it pays."""
    if name in ("AsyncLease", "AsyncOutlast"):
        from outlast import aio

        return getattr(aio, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
