"""`outlast enqueue`: storing a task from a shell."""

import json
import sys
from typing import Any

import click

from outlast.cli.command import Common, Verb, with_common
from outlast.cli.open_store import opened
from outlast.cli.output.records import task_data
from outlast.cli.output.views import Lines, View, show
from outlast.domain.budgets import MOST_RECOVERIES


@click.command("enqueue", cls=Verb)
@click.argument("kind")
@click.argument("payload", metavar="[PAYLOAD]", required=False)
@click.option(
    "--arg", "arguments", metavar="NAME=VALUE", multiple=True,
    help="One argument of the payload, as JSON or else as text; may be repeated.",
)  # fmt: skip
@click.option("--queue", metavar="NAME", help="The queue it waits in.")
@click.option("--priority", type=int, metavar="NUMBER", help="Higher ones are handed out first.")
@click.option("--delay", metavar="DURATION", help="How long it waits at least, such as 90s or 5m.")
@click.option("--id", "task_id", metavar="ID", help="An id of your own.")
@click.option("--group", metavar="NAME", help="The group it belongs to.")
@click.option("--key", metavar="KEY", help="An idempotency key: the same request is stored once.")
@click.option(
    "--max-retries", type=click.IntRange(min=0), metavar="NUMBER", help="Re-runs after failures."
)
@click.option(
    "--max-recoveries", type=click.IntRange(0, MOST_RECOVERIES), metavar="NUMBER",
    help="Re-runs after crashes in a row, without progress in between.",
)  # fmt: skip
@with_common
def enqueue(
    common: Common,
    /,
    *,
    kind: str,
    payload: str | None,
    arguments: tuple[str, ...],
    task_id: str | None,
    key: str | None,
    delay: str | None,
    **options: Any,
) -> None:
    """Store a task of KIND and print its id.

    PAYLOAD is JSON, or - to read it from stdin; --arg builds an object of single arguments
    instead. The store is made if it is missing.
    """
    if payload is not None and arguments:
        raise click.UsageError("give a payload or --arg, not both")
    value = _by_name(arguments) if arguments else _parsed(payload)
    given = {name: option for name, option in options.items() if option is not None}
    with opened(common, may_create=True) as app:
        task = app.enqueue(
            kind, value, id=task_id, idempotency_key=key, delay=_duration(delay), **given
        )
    show(common, View(task_data(task), [Lines([task.id])]))


def _parsed(text: str | None) -> Any:
    if text is None:
        return None
    if text == "-":
        text = sys.stdin.read()
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(
            f"the payload is not JSON ({error}); quote it for the shell, or use --arg NAME=VALUE"
        ) from None


def _by_name(arguments: tuple[str, ...]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for argument in arguments:
        name, equals, text = argument.partition("=")
        if not equals or not name:
            raise click.UsageError(f"--arg takes NAME=VALUE, not {argument!r}")
        if name in values:
            raise click.UsageError(f"the argument {name!r} is given twice")
        values[name] = _json_or_text(text)
    return values


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return text


def _refuse_constant(name: str) -> Any:
    """NaN and Infinity are no JSON, whatever Python's parser says."""
    raise ValueError(name)


def _duration(text: str | None) -> float | str | None:
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return text
