"""Calls on top of calls of the same thread: a signal's handler, or a finalizer, uses the store."""

import inspect
from operator import methodcaller
from types import CodeType

from outlast.errors import StoreError

# Whether this thread has an RLock; a Condition asks its lock the same way.
is_ours = methodcaller("_is_owned")

INSIDE = (
    "the store was called from inside one of its own operations, by a signal handler or a"
    " finalizer; let the main program do that instead"
)


def refuse_inside(owner: object, method: CodeType, calls_allowed: int = 0) -> None:
    """Raise if more calls of this very owner's method are on the stack of this thread."""
    frame = inspect.currentframe()
    calls = 0
    while frame is not None:
        if frame.f_code is method:
            calls += frame.f_locals.get("self") is owner
        frame = frame.f_back
    if calls > calls_allowed:
        raise StoreError(INSIDE)
