"""The exit codes, and which error leads to which; the last step of every command that failed."""

from enum import IntEnum

from outlast.errors import (
    GroupNotFound,
    InvalidInput,
    OutcomeUnknown,
    OutlastError,
    StoreError,
    StoreNotFound,
    TaskNotFound,
)


class Exit(IntEnum):
    """What the code a command ends with tells a script."""

    FINE = 0
    NO = 1
    USAGE = 2
    NO_STORE = 3
    NO_TASK = 4
    STORE_UNUSABLE = 5
    UNKNOWN_OUTCOME = 6
    UNEXPECTED = 70
    INTERRUPTED = 130
    PIPE_CLOSED = 141


MEANINGS = {
    Exit.FINE: "fine",
    Exit.NO: "the answer is no, or something failed: a task failed, a store is not healthy",
    Exit.USAGE: "the command was called in a way that cannot work",
    Exit.NO_STORE: "there is no store at that path",
    Exit.NO_TASK: "there is no such task or group",
    Exit.STORE_UNUSABLE: "the store cannot be used: busy, damaged, of a newer version",
    Exit.UNKNOWN_OUTCOME: "a commit may or may not have happened; look at the tasks named",
    Exit.UNEXPECTED: "an error nobody expected; OUTLAST_DEBUG=1 shows where it comes from",
    Exit.INTERRUPTED: "interrupted by Ctrl-C",
    Exit.PIPE_CLOSED: "the reader of the output went away",
}

# The first class that fits decides, so the narrow ones come before the wide ones.
_BY_ERROR: tuple[tuple[type[OutlastError], Exit], ...] = (
    (InvalidInput, Exit.USAGE),
    (TaskNotFound, Exit.NO_TASK),
    (GroupNotFound, Exit.NO_TASK),
    (StoreNotFound, Exit.NO_STORE),
    (OutcomeUnknown, Exit.UNKNOWN_OUTCOME),
    (StoreError, Exit.STORE_UNUSABLE),
)


def exit_for(error: OutlastError) -> Exit:
    """The exit code that an error of the library leads to."""
    return next((code for kind, code in _BY_ERROR if isinstance(error, kind)), Exit.NO)
