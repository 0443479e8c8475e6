"""What becomes of this process's stores when it forks or ends, and the import of what opens them.

The hooks are registered with the package. Hooks of the program's own, which may use a store, are
registered later: before a fork and at exit they run first, while all stores still serve.
"""

import atexit
import os
import sys
import threading
from typing import TYPE_CHECKING

from outlast.errors import StoreError

if TYPE_CHECKING:
    from outlast.store.opening import Backend, Registry

# Held while the store is imported: a child forked meanwhile would wait for ever for the import's
# own lock, whose holder it does not have.
_importing = threading.RLock()


def backend() -> "Backend":
    """What opens the stores of this process, imported when the first is opened.

    That is half of the cost of an import. It imports all of the store at once, so that no operation
    on it has to read a module's file later.
    """
    with _importing:
        from outlast.store import opening
    found: Backend | None = getattr(opening, "registry", None)
    if found is None:
        raise StoreError(
            "the store was called by a signal handler or a finalizer while it was being imported;"
            " let the main program do that instead"
        )
    return found


def _registry() -> "Registry | None":
    """The registry of open stores, if anybody has opened one."""
    return getattr(sys.modules.get("outlast.store.opening"), "registry", None)


def _before_fork() -> None:
    _importing.acquire()
    if (found := _registry()) is not None:
        found.quiesce()


def _after_fork_in_parent() -> None:
    try:
        if (found := _registry()) is not None:
            found.resume()
    finally:
        _importing.release()


def _after_fork_in_child() -> None:
    try:
        if (found := _registry()) is not None:
            found.abandon()
    finally:
        _importing.release()


def _at_exit() -> None:
    if (found := _registry()) is not None:
        last = getattr(sys, "last_type", None)
        found.close_at_exit(last is not None and issubclass(last, KeyboardInterrupt))


os.register_at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)
atexit.register(_at_exit)
