"""The part of an app that lets somebody trace."""

from outlast.app.handle import StoreHandle
from outlast.tasks.functions import Functions
from outlast.tasks.tracing import Tracing


class Traceable:
    """What both kinds of app have in common about tracing."""

    _functions: Functions
    _handle: StoreHandle

    def use_tracing(self, tracing: Tracing | None) -> None:
        """Tell this one of each enqueue and each attempt from now on; None: nobody."""
        self._functions.tracing = self._handle.tracing = tracing
