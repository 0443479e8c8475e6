"""`outlast task retry` and `cancel`: for tasks named one by one, or for all that fit a choice."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from outlast.cli.exits import Exit, exit_for
from outlast.cli.naming import named
from outlast.cli.selecting import Choice, everything, selection
from outlast.cli.stores import opened
from outlast.cli.text import safe
from outlast.cli.verbs import Common, Verb, with_common
from outlast.cli.views import Lines, View, show
from outlast.errors import InvalidTransition, PayloadDamaged, TaskNotFound

if TYPE_CHECKING:
    from outlast import Outlast

_FINAL = ("failed", "cancelled", "completed")
_UNFINISHED = ("pending", "running")


@dataclass(slots=True)
class Outcome:
    """What became of each task."""

    done: list[dict[str, Any]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    skipped: list[dict[str, str]] = field(default_factory=list)
    code: int = Exit.FINE

    def skip(self, task_id: str, reason: str, code: int) -> None:
        """Leave one task out and say why; the code tells that not all went as asked."""
        self.skipped.append({"id": task_id, "reason": reason})
        self.lines.append(f"{task_id} was left out: {reason}")
        self.code = max(self.code, code)


Change = Callable[["Outlast", str, Outcome], None]


def _retry_one(app: "Outlast", task_id: str, outcome: Outcome) -> None:
    clone = app.retry(task_id)
    outcome.done.append({"id": task_id, "new_id": clone.id})
    outcome.lines.append(f"{task_id} runs again as {clone.id}")


def _cancel_one(app: "Outlast", task_id: str, outcome: Outcome) -> None:
    was_changed = app.cancel(task_id)
    outcome.done.append({"id": task_id, "changed": was_changed})
    outcome.lines.append(f"{task_id} {'is' if was_changed else 'was already'} cancelled")


def _yes_option() -> Callable[[Any], Any]:
    return click.option("--yes", "-y", is_flag=True, help="Do not ask before a bulk change.")


@click.command("retry", cls=Verb)
@click.argument("task_ids", metavar="[ID]...", nargs=-1)
@selection
@_yes_option()
@with_common
def retry(common: Common, /, *, task_ids: Sequence[str], choice: Choice, yes: bool) -> int:
    """Run final tasks anew, each as a new task that names its original.

    Name them one by one, or choose them by --status and the other options. A choice leaves out
    tasks that were retried before.
    """
    _refuse_unclear(task_ids, choice, _FINAL)
    with opened(common) as app:
        ids = _named(app, task_ids) or _ask(
            _not_retried_yet(app, choice), choice, "will run again", yes
        )
        return _report(common, "retried", _apply(app, ids, _retry_one))


@click.command("cancel", cls=Verb)
@click.argument("task_ids", metavar="[ID]...", nargs=-1)
@selection
@_yes_option()
@with_common
def cancel(common: Common, /, *, task_ids: Sequence[str], choice: Choice, yes: bool) -> int:
    """Stop pending or running tasks for good.

    Name them one by one, or choose them by --status and the other options.
    """
    _refuse_unclear(task_ids, choice, _UNFINISHED)
    with opened(common) as app:
        ids = _named(app, task_ids) or _ask(_fitting(app, choice), choice, "will be cancelled", yes)
        return _report(common, "cancelled", _apply(app, ids, _cancel_one))


def _refuse_unclear(task_ids: Sequence[str], choice: Choice, allowed: Sequence[str]) -> None:
    """Either ids or a choice; a choice always says which status it is about."""
    words = " or ".join(allowed)
    if task_ids and any(choice):
        raise click.UsageError("give ids or a choice such as --status, not both")
    if not task_ids and choice.status is None:
        raise click.UsageError(f"give the ids of tasks, or choose them by --status {words}")
    if not task_ids and choice.status not in allowed:
        raise click.UsageError(f"only tasks that are {words} can be chosen here")


def _named(app: "Outlast", given: Sequence[str]) -> list[str]:
    """The ids that are meant; one that is unclear is told before anything is changed."""
    return [named(app, one) for one in given]


def _fitting(app: "Outlast", choice: Choice) -> list[str]:
    """The ids of all tasks that fit, oldest first, from one consistent read."""
    with everything(app, choice) as tasks:
        return [task.id for task in tasks if choice.fits(task)][::-1]


def _not_retried_yet(app: "Outlast", choice: Choice) -> list[str]:
    """The same without the originals of clones: a choice made twice must not double the work.

    A clone has its original's queue, group and kind, so one read shows both.
    """
    chosen: list[str] = []
    retried: set[str] = set()
    with everything(app, choice, of_any_status=True) as tasks:
        for task in tasks:
            if task.retry_of is not None:
                retried.add(task.retry_of)
            if choice.fits(task):
                chosen.append(task.id)
    return [task_id for task_id in reversed(chosen) if task_id not in retried]


def _ask(ids: list[str], choice: Choice, what: str, yes: bool) -> list[str]:
    """Say the scope and the count; go on only with a yes, from an option or from a person."""
    scope = f"{choice.in_words(len(ids))} {what}"
    click.echo(safe(f"{scope}."), err=True)
    if not ids or yes:
        return ids
    if not sys.stdin.isatty():
        raise click.UsageError("nothing was changed; add --yes to do it without being asked")
    if not click.confirm("Go on?", err=True):
        click.echo("Nothing was changed.", err=True)
        raise click.exceptions.Exit(Exit.NO)
    return ids


def _apply(app: "Outlast", ids: Sequence[str], change: Change) -> Outcome:
    """Each task by itself: one that cannot be changed does not keep the others from it."""
    outcome = Outcome()
    for task_id in ids:
        try:
            change(app, task_id, outcome)
        except (InvalidTransition, PayloadDamaged, TaskNotFound) as error:
            outcome.skip(task_id, str(error), exit_for(error))
    return outcome


def _report(common: Common, verb: str, outcome: Outcome) -> int:
    data = {verb: outcome.done, "skipped": outcome.skipped}
    show(common, View(data, [Lines(outcome.lines or ["Nothing was changed."])]))
    return outcome.code
