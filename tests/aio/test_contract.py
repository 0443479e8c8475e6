"""Whatever threads may ask of Outlast, coroutines may ask of AsyncOutlast, in the same words."""

import inspect
import subprocess
import sys
from collections.abc import Iterator

from outlast import AsyncLease, AsyncOutlast, Lease, Outlast

# What the engine's own modules use of a lease; AsyncLease gives them the lease itself.
OF_THE_ENGINE = {"claimed", "grant", "renew_soon", "session"}

# Decorate or make something where that is written, with nothing to wait for.
PLAIN = {"lock", "task", "use_tracing", "worker"}

# Come one by one.
STREAMS = {"follow", "snapshot"}


def _verbs(of: type) -> list[str]:
    return sorted(
        name for name in dir(of) if callable(getattr(of, name)) and not name.startswith("_")
    )


def _properties(of: type) -> dict[str, property]:
    found = {name: value for name, value in vars(of).items() if isinstance(value, property)}
    return {name: value for name, value in found.items() if name not in OF_THE_ENGINE}


def _parameters(verb: object) -> list[inspect.Parameter]:
    """The parameters of a verb, with a lease being a lease."""
    assert callable(verb)
    return [
        one.replace(annotation=str(one.annotation).replace("aio.lease.AsyncLease", "lease.Lease"))
        for one in inspect.signature(verb).parameters.values()
    ]


def _differences(ours: type, theirs: type, name: str) -> Iterator[str]:
    """In what a verb for coroutines is not the verb for threads, awaited."""
    if not hasattr(ours, name):
        yield f"{name}: is missing"
        return
    awaited, called = getattr(ours, name), getattr(theirs, name)
    is_stream = inspect.isasyncgenfunction(awaited)
    if not (is_stream if name in STREAMS else inspect.iscoroutinefunction(awaited)):
        yield f"{name}: cannot be awaited"
    if _parameters(awaited) != _parameters(called):
        yield f"{name}: has other parameters"
    if inspect.getdoc(awaited) != inspect.getdoc(called):
        yield f"{name}: has another docstring"
    if awaited.__name__ != name:
        yield f"{name}: calls itself {awaited.__name__}"


def test_every_verb_is_a_coroutine_function_with_the_same_parameters() -> None:
    names = sorted(set(_verbs(Outlast)) - PLAIN)
    assert len(names) > 50
    assert [one for name in names for one in _differences(AsyncOutlast, Outlast, name)] == []


def test_every_verb_of_a_lease_is_a_coroutine_function_with_the_same_parameters() -> None:
    names = sorted(set(_verbs(Lease)) - OF_THE_ENGINE)
    assert len(names) > 5
    assert [one for name in names for one in _differences(AsyncLease, Lease, name)] == []


def test_every_property_of_a_lease_is_there_without_awaiting() -> None:
    names = _properties(Lease)
    assert len(names) > 5
    assert [
        name for name in names if not isinstance(getattr(AsyncLease, name, None), property)
    ] == []
    assert [
        name
        for name in names
        if inspect.getdoc(getattr(AsyncLease, name)) != inspect.getdoc(getattr(Lease, name))
    ] == []


def test_they_are_made_alike_but_for_the_handle_that_only_our_own_code_passes() -> None:
    ours, theirs = (inspect.signature(one).parameters for one in (AsyncOutlast, Outlast))
    assert list(ours) == list(theirs)
    for name in list(ours)[1:]:
        assert ours[name] == theirs[name]


def test_there_is_nothing_more_than_the_contract() -> None:
    """`in_thread` is the way to what only threads can be asked."""
    assert set(_verbs(AsyncOutlast)) - set(_verbs(Outlast)) == {"in_thread"}
    assert set(_verbs(AsyncLease)) - set(_verbs(Lease)) == set()


_IMPORTS = """
import sys
import outlast
outlast.Settings()
with outlast.Outlast(sys.argv[1]) as app:
    app.enqueue("work", id="t1")
    (lease,) = app.claim("w", wait=1)
    lease.complete(1)
    assert app.get("t1").wait(1) == 1
print(*sorted({"asyncio", "concurrent.futures", "outlast.app.aio"} & set(sys.modules)))
outlast.AsyncOutlast
print(*sorted({"asyncio", "concurrent.futures", "outlast.app.aio"} & set(sys.modules)))
"""


def test_who_uses_no_coroutines_does_not_import_what_they_need(database: object) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _IMPORTS, str(database)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["", "asyncio concurrent.futures outlast.app.aio"]
