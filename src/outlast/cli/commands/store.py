"""`outlast store`: keeping the file itself in order."""

import re
from typing import TYPE_CHECKING

import click

from outlast.cli.command import Common, Verb, Verbs, with_common
from outlast.cli.exits import Exit
from outlast.cli.open_store import opened
from outlast.cli.output.text import safe
from outlast.cli.output.views import Lines, View, show
from outlast.errors import MigrationRefused, SchemaError, SchemaNewer

if TYPE_CHECKING:
    from outlast import Outlast, SchemaReport

_KIND = re.compile(r"CREATE\s+(?:UNIQUE\s+)?(\w+)", re.IGNORECASE)
_KINDS = ("table", "view", "index", "trigger")


@click.group("store", cls=Verbs)
def store() -> None:
    """Keep the store's file in order."""


@store.command("migrate", cls=Verb)
@click.option(
    "--verify", is_flag=True,
    help="Change nothing; show the version, the tables and the whole schema.",
)  # fmt: skip
@with_common
def migrate(common: Common, verify: bool) -> int:
    """Bring the store's schema up to date."""
    with opened(common) as app:
        if verify:
            return _verify(common, app)
        applied = app.migrate()
        version = app.schema().version
    done = [f"applied {name}" for name in applied] or ["There was nothing to apply."]
    data = {"applied": applied, "version": version}
    show(common, View(data, [Lines([*done, f"The schema is version {version}."])]))
    return Exit.FINE


def _verify(common: Common, app: "Outlast") -> int:
    try:
        report = app.schema()
    except (SchemaNewer, MigrationRefused):
        raise
    except SchemaError as error:
        click.echo(f"outlast: {safe(str(error))}", err=True)
        return Exit.NO
    show(common, _schema_view(report))
    return Exit.FINE


def _schema_view(report: "SchemaReport") -> View:
    kinds = {name: _kind_of(text) for name, text in report.definitions.items()}
    named = {
        kind: sorted(name for name, found in kinds.items() if found == kind) for kind in _KINDS
    }
    data = {
        "version": report.version,
        "migrations": list(report.migrations),
        **{_plural(kind): names for kind, names in named.items()},
        "schema": report.definitions,
    }
    lists = [f"{_plural(kind)}: {', '.join(names)}" for kind, names in named.items()]
    text = [line for name in kinds for line in f"{report.definitions[name]};".splitlines()]
    return View(
        data,
        [
            Lines([f"The schema is version {report.version} and current."]),
            Lines(["migrations", *(f"  {name}" for name in report.migrations)]),
            Lines(lists),
            Lines(["schema", *(f"  {line}" for line in text)]),
        ],
    )


def _kind_of(definition: str) -> str:
    match = _KIND.match(definition)
    return match[1].lower() if match else ""


def _plural(kind: str) -> str:
    return "indexes" if kind == "index" else f"{kind}s"
