"""Calls on top of calls of the same thread: a signal's handler, or a finalizer, uses the store."""

import inspect
from threading import get_ident
from types import CodeType

from outlast.errors import StoreError

INSIDE = (
    "the store was called from inside one of its own operations, by a signal handler or a"
    " finalizer; let the main program do that instead"
)


class Waiting:
    """The threads that wait; one that waited on top of itself would hold up whoever it waits for.

    Asked at every wait, and therefore noted down instead of looked up on the stack.
    """

    def __init__(self) -> None:
        self.for_what: dict[int, object] = {}

    def begin(self, what: object) -> None:
        """This thread waits for it from now on; raises if it waits for something else already."""
        if self.for_what.setdefault(get_ident(), what) is not what:
            raise StoreError(INSIDE)

    def end(self, what: object) -> None:
        """It waits no longer, if it was for this; safe to be repeated."""
        me = get_ident()
        if self.for_what.get(me) is what:
            del self.for_what[me]


def refuse_inside(owner: object, method: CodeType) -> None:
    """Raise if a call of this very owner's method is on the stack of this thread."""
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code is method and frame.f_locals.get("self") is owner:
            raise StoreError(INSIDE)
        frame = frame.f_back
