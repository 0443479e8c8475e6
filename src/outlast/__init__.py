"""Outlast: a crash-proof task queue for Python, in one SQLite file next to your program."""

from typing import TYPE_CHECKING, Any

from outlast.errors import (
    DatabaseError,
    DeclaredDead,
    EngineTooOld,
    GiveBack,
    GroupNotFound,
    IdempotencyConflict,
    InvalidInput,
    InvalidTransition,
    LeaseInherited,
    LeaseLost,
    LockHeld,
    LockLost,
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

if TYPE_CHECKING:
    from outlast.app.aio import (
        AsyncLease,
        AsyncNamedLock,
        AsyncOutlast,
        AsyncSubscription,
        AsyncWorker,
    )
    from outlast.app.app import Outlast
    from outlast.app.lease import Lease
    from outlast.app.named_lock import NamedLock
    from outlast.app.recovery import QueueRecovery
    from outlast.app.snapshot import Snapshot
    from outlast.app.subscription import Subscription
    from outlast.app.workers import Heartbeats
    from outlast.clock import Clock, Instant, SystemClock
    from outlast.domain.events import Cursor, Event, Subscriber
    from outlast.domain.integrity import IntegrityResult, Verdict
    from outlast.domain.lifecycle import Parked, RecoveryAction, Status
    from outlast.domain.locks import LockInfo, LockState
    from outlast.domain.operator_acts import AuditRecord, Forced
    from outlast.domain.recovery import (
        DeadWorker,
        Decision,
        RecoveredTask,
        RecoveryReport,
        RecoveryStatus,
        RecoveryStep,
        Suspect,
        UnrecoveredTask,
    )
    from outlast.domain.recovery_report import ReportDocument
    from outlast.domain.stats import (
        Backlog,
        CheckpointFigures,
        LeaseFigures,
        Stats,
        TaskFigures,
    )
    from outlast.domain.task import Checkpoint, Group, Move, Task
    from outlast.domain.worker import PreviousStop, Serves, StuckHandler, WorkerInfo, WorkerState
    from outlast.maintenance.healing import Recovery, RecoveryStats
    from outlast.maintenance.recovery import usual_recovery
    from outlast.settings import Settings
    from outlast.store.records import Batch, FlushResult, KeyRecord, SchemaReport
    from outlast.tasks.context import Context
    from outlast.tasks.functions import TaskFunction
    from outlast.worker.counts import Tally
    from outlast.worker.worker import Worker

__version__ = "0.1.0"

__all__ = [
    "AsyncLease",
    "AsyncNamedLock",
    "AsyncOutlast",
    "AsyncSubscription",
    "AsyncWorker",
    "AuditRecord",
    "Backlog",
    "Batch",
    "Checkpoint",
    "CheckpointFigures",
    "Clock",
    "Context",
    "Cursor",
    "DatabaseError",
    "DeadWorker",
    "Decision",
    "DeclaredDead",
    "EngineTooOld",
    "Event",
    "FlushResult",
    "Forced",
    "GiveBack",
    "Group",
    "GroupNotFound",
    "Heartbeats",
    "IdempotencyConflict",
    "Instant",
    "IntegrityResult",
    "InvalidInput",
    "InvalidTransition",
    "KeyRecord",
    "Lease",
    "LeaseFigures",
    "LeaseInherited",
    "LeaseLost",
    "LockHeld",
    "LockInfo",
    "LockLost",
    "LockState",
    "MigrationRefused",
    "Move",
    "NamedLock",
    "NetworkFilesystem",
    "NotAStore",
    "OutcomeUnknown",
    "Outlast",
    "OutlastError",
    "Parked",
    "PayloadDamaged",
    "PayloadRejected",
    "PermanentError",
    "PreviousStop",
    "QueueFull",
    "QueueRecovery",
    "QueueStalled",
    "RecoveredTask",
    "Recovery",
    "RecoveryAction",
    "RecoveryFailed",
    "RecoveryReport",
    "RecoveryStats",
    "RecoveryStatus",
    "RecoveryStep",
    "ReportDocument",
    "SchemaError",
    "SchemaNewer",
    "SchemaReport",
    "SecondSqliteCopy",
    "Serves",
    "Settings",
    "Snapshot",
    "StatementRefused",
    "Stats",
    "Status",
    "StoreBusy",
    "StoreError",
    "StoreNotFound",
    "StoreReplaced",
    "StoreUnwritable",
    "StuckHandler",
    "Subscriber",
    "Subscription",
    "Suspect",
    "SystemClock",
    "Tally",
    "Task",
    "TaskCancelled",
    "TaskFailed",
    "TaskFigures",
    "TaskFunction",
    "TaskNotFound",
    "UnrecoveredTask",
    "Verdict",
    "Worker",
    "WorkerInfo",
    "WorkerState",
    "__version__",
    "usual_recovery",
]

# Where the other public names live. Importing them all takes longer than the command line may take
# to start, so only who asks for one pays for it.
_HOMES = {
    "outlast.app.aio": "AsyncLease AsyncNamedLock AsyncOutlast AsyncSubscription AsyncWorker",
    "outlast.app.app": "Outlast",
    "outlast.clock": "Clock Instant SystemClock",
    "outlast.domain.events": "Cursor Event Subscriber",
    "outlast.domain.stats": "Backlog CheckpointFigures LeaseFigures Stats TaskFigures",
    "outlast.domain.integrity": "IntegrityResult Verdict",
    "outlast.domain.lifecycle": "Parked RecoveryAction Status",
    "outlast.domain.operator_acts": "AuditRecord Forced",
    "outlast.domain.locks": "LockInfo LockState",
    "outlast.domain.recovery_report": "ReportDocument",
    "outlast.domain.recovery": "DeadWorker Decision RecoveredTask RecoveryReport RecoveryStatus"
    " RecoveryStep Suspect UnrecoveredTask",
    "outlast.domain.task": "Checkpoint Group Move Task",
    "outlast.domain.worker": "PreviousStop Serves StuckHandler WorkerInfo WorkerState",
    "outlast.tasks.context": "Context",
    "outlast.tasks.functions": "TaskFunction",
    "outlast.maintenance.healing": "Recovery RecoveryStats",
    "outlast.maintenance.recovery": "usual_recovery",
    "outlast.app.lease": "Lease",
    "outlast.app.named_lock": "NamedLock",
    "outlast.app.recovery": "QueueRecovery",
    "outlast.app.snapshot": "Snapshot",
    "outlast.app.subscription": "Subscription",
    "outlast.worker.counts": "Tally",
    "outlast.worker.worker": "Worker",
    "outlast.app.workers": "Heartbeats",
    "outlast.settings": "Settings",
    "outlast.store.records": "Batch FlushResult KeyRecord SchemaReport",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, imported or not."""
    return sorted({*globals(), *__all__})
