"""`outlast health`: one line for each concern, and the worst of them as the exit code."""

import click

from outlast.cli.command import Common, Verb, watch_option, with_common
from outlast.cli.commands.health_checks import Concern, concerns
from outlast.cli.open_store import chosen, loaded
from outlast.cli.output.views import Table, View, show_or_watch


@click.command("health", cls=Verb)
@watch_option
@with_common
def health(common: Common, /, *, watch: float | None) -> int:
    """Say whether the store is well.

    Exit codes: 0 ok, 1 degraded, 2 failed.
    """
    limit_bytes = loaded(common).settings.wal_limit_bytes
    app = chosen(common)
    found: list[Concern] = []

    def look() -> View:
        found[:] = concerns(app, limit_bytes)
        return _view(found)

    try:
        show_or_watch(common, watch, look)
    finally:
        app.close()
    return int(max(one.grade for one in found))


def _view(found: list[Concern]) -> View:
    data = {
        "status": max(one.grade for one in found).name.lower(),
        "concerns": [
            {"name": one.name, "status": one.grade.name.lower(), "detail": one.detail}
            for one in found
        ],
    }
    rows = [(one.grade.name.lower(), one.name, one.detail) for one in found]
    return View(data, [Table(("status", "concern", "detail"), rows)])
