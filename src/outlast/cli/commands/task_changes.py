"""`outlast task retry` and `cancel`: for tasks named one by one, or for all that fit a choice."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from outlast.cli.command import Common, Verb, with_common
from outlast.cli.commands.bulk import (
    Outcome,
    ask,
    fitting,
    named_all,
    not_retried_yet,
    refuse_unclear,
    report,
)
from outlast.cli.exits import exit_for
from outlast.cli.open_store import opened
from outlast.cli.selection import Choice, selection
from outlast.cli.signature import COMMAND_LINE, by_option
from outlast.errors import InvalidTransition, PayloadDamaged, TaskNotFound

if TYPE_CHECKING:
    from outlast import Outlast

_FINAL = ("failed", "cancelled", "completed")
_UNFINISHED = ("pending", "running")


Change = Callable[["Outlast", str, str, Outcome], None]


def _retry_one(app: "Outlast", task_id: str, by: str, outcome: Outcome) -> None:
    clone = app.retry(task_id, by=by, source=COMMAND_LINE)
    outcome.done.append({"id": task_id, "new_id": clone.id})
    outcome.lines.append(f"{task_id} runs again as {clone.id}")


def _cancel_one(app: "Outlast", task_id: str, by: str, outcome: Outcome) -> None:
    was_changed = app.cancel(task_id, by=by, source=COMMAND_LINE)
    outcome.done.append({"id": task_id, "changed": was_changed})
    outcome.lines.append(f"{task_id} {'is' if was_changed else 'was already'} cancelled")


def _yes_option() -> Callable[[Any], Any]:
    return click.option("--yes", "-y", is_flag=True, help="Do not ask before a bulk change.")


@click.command("retry", cls=Verb)
@click.argument("task_ids", metavar="[ID]...", nargs=-1)
@selection
@by_option
@_yes_option()
@with_common
def retry(common: Common, /, *, task_ids: Sequence[str], choice: Choice, by: str, yes: bool) -> int:
    """Run final tasks anew, each as a new task that names its original.

    Name them one by one, or choose them by --status and the other options. A choice leaves out
    tasks that were retried before.
    """
    refuse_unclear(task_ids, choice, _FINAL)
    with opened(common) as app:
        ids = named_all(app, task_ids) or ask(
            not_retried_yet(app, choice), choice, "will run again", yes
        )
        return report(common, "retried", _apply(app, ids, by, _retry_one))


@click.command("cancel", cls=Verb)
@click.argument("task_ids", metavar="[ID]...", nargs=-1)
@selection
@by_option
@_yes_option()
@with_common
def cancel(
    common: Common, /, *, task_ids: Sequence[str], choice: Choice, by: str, yes: bool
) -> int:
    """Stop pending or running tasks for good.

    Name them one by one, or choose them by --status and the other options.
    """
    refuse_unclear(task_ids, choice, _UNFINISHED)
    with opened(common) as app:
        ids = named_all(app, task_ids) or ask(
            fitting(app, choice), choice, "will be cancelled", yes
        )
        return report(common, "cancelled", _apply(app, ids, by, _cancel_one))


def _apply(app: "Outlast", ids: Sequence[str], by: str, change: Change) -> Outcome:
    """Each task by itself: one that cannot be changed does not keep the others from it."""
    outcome = Outcome()
    for task_id in ids:
        try:
            change(app, task_id, by, outcome)
        except (InvalidTransition, PayloadDamaged, TaskNotFound) as error:
            outcome.skip(task_id, str(error), exit_for(error))
    return outcome
