"""Verbs of the object for threads, called from coroutines by way of a thread of ours."""

from collections.abc import Callable, Coroutine
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar

from outlast.app.aio.hop import Hop
from outlast.app.app import Outlast

P = ParamSpec("P")
T = TypeVar("T")


class Hopping:
    """Has an object for threads, on the same handle, and the threads to call it in."""

    _app: Outlast
    _hop: Hop

    async def in_thread(
        self, verb: Callable[Concatenate[Outlast, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call a verb of the object for threads, such as `Outlast.get`, in a thread of ours."""
        return await self._hop.to_its_end(verb, self._app, *args, **kwargs)


def hopping(
    verb: Callable[Concatenate[Outlast, P], T],
) -> Callable[Concatenate[Hopping, P], Coroutine[Any, Any, T]]:
    """The same verb of the object for threads, called in one of ours."""

    async def call(self: Hopping, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.in_thread(verb, *args, **kwargs)

    update_wrapper(call, verb)
    return call
