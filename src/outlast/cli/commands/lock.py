"""`outlast lock`: who holds which named lock, and freeing one on an operator's word."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from outlast.cli.command import Common, Verb, Verbs, watch_option, with_common
from outlast.cli.exits import Exit
from outlast.cli.open_store import opened
from outlast.cli.output import text
from outlast.cli.output.views import Lines, Table, View, show, show_or_watch
from outlast.cli.signature import COMMAND_LINE, by_option
from outlast.domain.names import checked_name

if TYPE_CHECKING:
    from outlast import LockInfo


@click.group("lock", cls=Verbs)
def lock() -> None:
    """See who holds named locks, and free them."""


@lock.command("list", cls=Verb)
@watch_option
@with_common
def list_locks(common: Common, /, *, watch: float | None) -> None:
    """List the locks that were not given back: held, stale or orphaned."""
    with opened(common) as app:
        show_or_watch(common, watch, lambda: _listing(app.locks()))


@lock.command("check", cls=Verb)
@click.argument("name", default="default")
@with_common
def check(common: Common, /, *, name: str) -> int:
    """Say whether a lock is stale: its time has passed, and nobody gave it back.

    The exit code is 1 if so. A lock that is free is not stale.
    """
    name = checked_name(name, "lock")
    with opened(common) as app:
        found = next((one for one in app.locks() if one.name == name), None)
    is_stale = found is not None and found.is_stale
    state = "free" if found is None else found.state.value
    by = "" if found is None else f", taken by {found.holder} at {text.stamp(found.acquired_at)}"
    data = {"name": name, "state": state, "stale": is_stale}
    show(common, View(data, [Lines([f"lock {name} is {state}{by}"])]))
    return Exit.NO if is_stale else Exit.FINE


@lock.command("release", cls=Verb)
@click.argument("name")
@by_option
@with_common
def release(common: Common, /, *, name: str, by: str) -> int:
    """Free a lock whoever holds it; its holder finds it lost."""
    with opened(common) as app:
        was_held = app.release_lock(name, by=by, source=COMMAND_LINE)
    said = f"lock {name} is free" if was_held else f"lock {name} was free already"
    show(common, View({"name": name, "changed": was_held}, [Lines([said])]))
    return Exit.FINE


def _listing(locks: Sequence["LockInfo"]) -> View:
    table = Table(
        ("lock", "state", "holder", "pid", "host", "since", "left", "token", "task"),
        [_cells(one) for one in locks],
        numbers=frozenset({"pid", "left", "token"}),
        elastic="holder",
        expendable=("host", "token", "since", "task"),
        empty="No lock is held.",
    )
    return View([lock_data(one) for one in locks], [table])


def _cells(one: "LockInfo") -> tuple[str, ...]:
    return (
        one.name,
        one.state.value,
        one.holder,
        "" if one.pid is None else str(one.pid),
        one.host or "",
        text.stamp(one.acquired_at),
        text.span(one.left_ms / 1000) if one.left_ms > 0 else "over",
        str(one.token),
        one.task_id or "",
    )


def lock_data(one: "LockInfo") -> dict[str, Any]:
    """A lock as data."""
    return {
        "name": one.name,
        "state": one.state.value,
        "holder": one.holder,
        "pid": one.pid,
        "host": one.host,
        "acquired_at": text.moment(one.acquired_at),
        "expires_at": text.moment(one.expires_at),
        "seconds_left": max(one.left_ms, 0) / 1000,
        "token": one.token,
        "task_id": one.task_id,
    }
