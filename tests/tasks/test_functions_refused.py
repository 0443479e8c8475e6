"""What cannot be a task is refused where it is decorated, in one sentence that says what to do."""

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from outlast import InvalidInput, Outlast
from outlast.tasks.functions import FunctionOptions


class Opaque:
    def method(self) -> None: ...


def by_position(x: int, /) -> None: ...
def star(*x: int) -> None: ...
def double_star(**x: int) -> None: ...
def context_second(x: int, ctx: Any) -> None: ...
def context_by_name(*, ctx: Any) -> None: ...
def two_texts(x: datetime | str) -> None: ...
def text_or_path(x: str | Path) -> None: ...
def opaque(x: list[Opaque]) -> None: ...
def callback(x: Callable[[], int]) -> None: ...
def yields() -> Iterator[int]:
    yield 1


async def yields_later() -> AsyncIterator[int]:
    yield 1


REFUSED = [
    (by_position, r"by_position\(\) takes x by position only; drop the `/`"),
    (star, r"star\(\) takes \*x, which have no names; take a list"),
    (double_star, r"double_star\(\) takes \*\*x, whose names are open; take a dict"),
    (context_second, r"context_second\(\) must take ctx as its first, positional parameter"),
    (context_by_name, r"context_by_name\(\) must take ctx as its first, positional parameter"),
    (two_texts, r"two_texts\(\) cannot be told from JSON: .*more than one str-like"),
    (text_or_path, r"text_or_path\(\) cannot be told from JSON: "),
    (opaque, r"opaque\(\) cannot be told from JSON: Opaque is no type of JSON; use a dataclass"),
    (callback, r"callback\(\) cannot be told from JSON: "),
    (yields, "yields yields, so a call would not run it; return a list"),
    (yields_later, "yields_later yields, so a call would not run it"),
    (lambda: 1, "takes no lambda; give it a name with def"),
    (Opaque.method, "Opaque.method stands in a class; move it to the top level"),
    (Opaque().method, "takes a function, not Opaque.method; wrap it in one"),
    (functools.partial(star, 1), "takes a function, not functools.partial"),
    (Opaque, "takes a function, not Opaque; wrap it in one"),
    (print, "takes a function, not print; wrap it in one"),
]


@pytest.mark.parametrize(("function", "sentence"), REFUSED)
def test_a_function_that_cannot_be_a_task_is_refused(
    app: Outlast, function: Any, sentence: str
) -> None:
    for decorator in (app.task, app.task(queue="q")):
        with pytest.raises(InvalidInput, match=sentence) as refused:
            decorator(function)
        assert "\n" not in str(refused.value)
    assert dict(app.functions) == {}


WRONG: list[dict[str, Any]] = [
    {"name": ""},
    {"name": 5},
    {"queue": ""},
    {"queue": None},
    {"priority": "high"},
    {"max_retries": -1},
    {"max_retries": 1.5},
    {"lease": 0},
    {"lease": "soon"},
    {"timeout": 0},
    {"timeout": -1},
    {"backoff": "soon"},
    {"backoff": "5m", "backoff_cap": "1m"},
    {"isolation": "machine"},
    {"memory_limit": "512MiB"},
    {"memory_limit": "much", "isolation": "process"},
]


@pytest.mark.parametrize("options", WRONG, ids=str)
def test_options_that_cannot_work_are_refused(app: Outlast, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refused:
        app.task(**options)(star_free)
    assert any(name.split("_")[0] in str(refused.value) for name in options)
    assert dict(app.functions) == {}


def star_free(x: int) -> None: ...


def test_options_are_kept_with_their_units(app: Outlast) -> None:
    decorated = app.task(
        queue="gpu",
        priority=-1,
        max_retries=0,
        backoff="2s",
        backoff_cap="5m",
        lease=90,
        timeout="10m",
        isolation="process",
        memory_limit="1.5GiB",
    )(star_free)
    assert decorated.options == FunctionOptions(
        queue="gpu",
        priority=-1,
        max_retries=0,
        backoff_seconds=2,
        backoff_cap_seconds=300,
        lease_seconds=90,
        timeout_seconds=600,
        isolation="process",
        memory_limit_bytes=3 << 29,
    )
    assert app.task(name="bare")(star_free).options == FunctionOptions()


def test_only_a_function_that_can_be_found_by_name_may_run_in_a_process(app: Outlast) -> None:
    def nested() -> None: ...

    with pytest.raises(InvalidInput, match="stands inside another function"):
        app.task(isolation="process")(nested)
    assert app.task(nested).kind == "nested"
    isolated = app.task(isolation="process")(star_free)
    assert isolated.module_ref == (__name__, "star_free")


def test_a_functions_own_waits_between_retries_replace_those_of_the_settings(
    app: Outlast,
) -> None:
    default = app.open().functions.serve().settings.backoff
    assert tuple(default) == (1_000, 300_000)
    plain, quick = app.task(name="a")(star_free), app.task(name="b", backoff=0)(star_free)
    slow = app.task(name="c", backoff="10m")(star_free)
    capped = app.task(name="d", backoff_cap="30s")(star_free)
    waits = [tuple(one.backoff(default)) for one in (plain, quick, slow, capped)]
    assert waits == [(1_000, 300_000), (0, 300_000), (600_000, 600_000), (1_000, 30_000)]
