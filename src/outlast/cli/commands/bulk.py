"""Changes of many tasks: which are meant, the question before it, and what became of each."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from outlast.cli.command import Common
from outlast.cli.exits import Exit
from outlast.cli.output.text import safe
from outlast.cli.output.views import Lines, View, show
from outlast.cli.selection import Choice, everything
from outlast.cli.task_ids import named

if TYPE_CHECKING:
    from outlast import Outlast


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


def refuse_unclear(task_ids: Sequence[str], choice: Choice, allowed: Sequence[str]) -> None:
    """Either ids or a choice; a choice always says which status it is about."""
    words = " or ".join(allowed)
    if task_ids and any(choice):
        raise click.UsageError("give ids or a choice such as --status, not both")
    if not task_ids and choice.status is None:
        raise click.UsageError(f"give the ids of tasks, or choose them by --status {words}")
    if not task_ids and choice.status not in allowed:
        raise click.UsageError(f"only tasks that are {words} can be chosen here")


def named_all(app: "Outlast", given: Sequence[str]) -> list[str]:
    """The ids that are meant, each once; one that is unclear is told before anything is changed."""
    return list(dict.fromkeys(named(app, one) for one in given))


def fitting(app: "Outlast", choice: Choice) -> list[str]:
    """The ids of all tasks that fit, oldest first, from one consistent read."""
    with everything(app, choice) as tasks:
        return [task.id for task in tasks if choice.fits(task)][::-1]


def not_retried_yet(app: "Outlast", choice: Choice) -> list[str]:
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


def ask(ids: list[str], choice: Choice, what: str, yes: bool) -> list[str]:
    """Say the scope and the count; go on only with a yes, from an option or from a person."""
    confirm(f"{choice.in_words(len(ids))} {what}.", yes or not ids)
    return ids


def confirm(scope: str, yes: bool) -> None:
    """Say what will be done, and leave unless somebody wants it."""
    click.echo(safe(scope), err=True)
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("nothing was changed; add --yes to do it without being asked")
    if not click.confirm("Go on?", err=True):
        click.echo("Nothing was changed.", err=True)
        raise click.exceptions.Exit(Exit.NO)


def report(common: Common, verb: str, outcome: Outcome) -> int:
    data = {verb: outcome.done, "skipped": outcome.skipped}
    show(common, View(data, [Lines(outcome.lines or ["Nothing was changed."])]))
    return outcome.code
