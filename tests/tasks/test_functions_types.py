"""What a type checker sees of `@app.task`; `assert_type` and the ignores are checked by mypy."""

import copy
import pickle
from collections.abc import Coroutine
from typing import Any, assert_type

import pytest

from outlast import AsyncOutlast, InvalidInput, Outlast, Task
from outlast.tasks.context import Context

app = Outlast("never-opened.db")
aio = AsyncOutlast("never-opened.db")


@app.task
def plain(path: str, pages: int = 1) -> list[str]:
    return [path] * pages


@app.task(max_retries=3, timeout="10m")
def contextual(ctx: Context, path: str) -> list[str]:
    return [path]


@app.task
async def awaited(ctx: Context, path: str) -> int:
    return len(path)


@aio.task(queue="gpu")
async def looped(ctx: Context, path: str) -> int:
    return len(path)


@aio.task
def unlooped(thing: object) -> int:
    return 1


def test_a_plain_call_has_the_functions_own_type() -> None:
    assert assert_type(plain("a", pages=2), list[str]) == ["a", "a"]
    with pytest.raises(TypeError, match="path"):
        contextual("a")  # type: ignore[call-arg, arg-type]


def test_it_travels_between_processes_as_the_function_would() -> None:
    assert pickle.loads(pickle.dumps(plain)) is plain
    assert copy.deepcopy([looped]) == [looped]


def _never_called(ctx: Context) -> None:
    """Wrong calls that only a type checker sees."""
    plain(1)  # type: ignore[arg-type]
    contextual("a")  # type: ignore[call-arg, arg-type]
    assert_type(contextual(ctx, "a"), list[str])
    assert_type(awaited(ctx, "a"), Coroutine[Any, Any, int]).close()
    assert_type(contextual.enqueue("a"), Task)
    assert_type(contextual.using(queue="q").enqueue(path="a"), Task)
    contextual.enqueue(ctx, "a")  # type: ignore[call-arg, arg-type]
    contextual.using(queues="q")  # type: ignore[call-arg]
    app.task(max_retry=3)  # type: ignore[call-overload]


async def _never_awaited() -> None:
    assert_type(await contextual.aenqueue("a"), Task)
    assert_type(await looped.enqueue("a"), Task)
    assert_type(await looped.using(delay=1).aenqueue("a"), Task)
    assert_type(await looped.enqueue_many(["a"]), list[str])
    assert_type(await unlooped.enqueue(3), Task)
    await looped.enqueue(3)  # type: ignore[arg-type]


def test_what_a_type_checker_refuses_is_refused_at_run_time_too() -> None:
    with pytest.raises(InvalidInput):
        plain.enqueue(1)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        plain.enqueue("a", 1, 2)  # type: ignore[call-arg]
    with pytest.raises(InvalidInput):
        contextual.enqueue()  # type: ignore[call-arg]
    with pytest.raises(InvalidInput):
        contextual.using(priority=1).enqueue(1)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="max_retry"):
        app.task(max_retry=3)  # type: ignore[call-overload]
