"""Verbs of the object for threads, called from coroutines by way of a thread of ours."""

from collections.abc import Callable, Coroutine
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar

from outlast.app.aio.thread_pool import ThreadPool
from outlast.app.app import Outlast

P = ParamSpec("P")
T = TypeVar("T")


class InThread:
    """Has an object for threads, on the same handle, and the threads to call it in."""

    _app: Outlast
    _pool: ThreadPool

    async def in_thread(
        self, verb: Callable[Concatenate[Outlast, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call a verb of the object for threads, such as `Outlast.get`, in a thread of ours."""
        return await self._pool.to_its_end(verb, self._app, *args, **kwargs)


def in_thread(
    verb: Callable[Concatenate[Outlast, P], T],
) -> Callable[Concatenate[InThread, P], Coroutine[Any, Any, T]]:
    """The same verb of the object for threads, called in one of ours."""

    async def call(self: InThread, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.in_thread(verb, *args, **kwargs)

    update_wrapper(call, verb)
    return call
