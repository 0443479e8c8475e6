"""`outlast queue audit`: who did what, a line an act, or an item."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from outlast.cli.command import Common, Verb, watch_option, with_common
from outlast.cli.open_store import opened
from outlast.cli.output import text
from outlast.cli.output.views import Table, View, show_or_watch

if TYPE_CHECKING:
    from outlast import AuditRecord

LISTED = 50


@click.command("audit", cls=Verb)
@click.option("--items", is_flag=True, help="Each task and lock that anyone but its holder moved.")
@click.option(
    "--after", metavar="NUMBER", type=click.IntRange(min=0),
    help="What came behind this entry; else the newest.",
)  # fmt: skip
@click.option(
    "--limit", metavar="COUNT", type=click.IntRange(1, 100_000), default=LISTED, show_default=True,
    help="How many at most.",
)  # fmt: skip
@watch_option
@with_common
def audit(
    common: Common, /, *, items: bool, after: int | None, limit: int, watch: float | None
) -> None:
    """Show who did what: recovery, healing, and people by name."""
    with opened(common) as app:
        show_or_watch(
            common,
            watch,
            lambda: _listing(app.audit(after or 0, limit, items=items, newest=after is None)),
        )


def _listing(found: "list[AuditRecord]") -> View:
    table = Table(
        ("number", "at", "who", "by way of", "did", "what", "status", "details"),
        [_cells(one) for one in found],
        numbers=frozenset({"number"}),
        elastic="details",
        expendable=("by way of", "status", "details"),
        empty="Nothing is on record.",
    )
    return View([asdict(one) | {"at": text.moment(one.at)} for one in found], [table])


def _cells(one: "AuditRecord") -> tuple[str, ...]:
    return (
        str(one.id),
        text.stamp(one.at),
        one.actor,
        one.source,
        one.action,
        one.subject or "",
        one.status,
        ", ".join(_details(one.data)),
    )


def _details(data: Any) -> list[str]:
    return [
        f"{name}: {value if isinstance(value, str) else text.safe_json(value)}"
        for name, value in data.items()
        if value not in (None, 0, "", [], {})
    ]
