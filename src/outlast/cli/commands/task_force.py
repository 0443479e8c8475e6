"""`outlast task force` and `outlast queue approve`: what people decide against the usual course."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from outlast.cli.command import Common, Verb, with_common
from outlast.cli.commands.bulk import (
    Outcome,
    ask,
    confirm,
    fitting,
    named_all,
    not_retried_yet,
    refuse_unclear,
    report,
)
from outlast.cli.exits import Exit, exit_for
from outlast.cli.open_store import opened
from outlast.cli.output.text import count
from outlast.cli.output.views import Lines, View, show
from outlast.cli.selection import STATUSES, Choice, selection
from outlast.cli.signature import COMMAND_LINE, by_option
from outlast.domain.operator_acts import NOT_THERE
from outlast.errors import InvalidTransition, TaskNotFound

if TYPE_CHECKING:
    from outlast import Forced

_WORDS = {
    "retry": "will be retried by force",
    "fail": "will be failed",
    "pending": "will be put back",
}


@click.command("force", cls=Verb)
@click.argument("action", type=click.Choice(tuple(_WORDS)))
@click.argument("task_ids", metavar="[ID]...", nargs=-1)
@selection
@click.option("--reason", metavar="TEXT", help="What for; stands in the history and the audit.")
@by_option
@click.option("--yes", "-y", is_flag=True, help="Do not ask before a bulk change.")
@with_common
def force(
    common: Common,
    /,
    *,
    action: str,
    task_ids: Sequence[str],
    choice: Choice,
    reason: str | None,
    by: str,
    yes: bool,
) -> int:
    """Retry, fail or put back tasks, whoever holds them.

    ACTION is retry, fail or pending. A living worker loses its task and learns of it at its next
    write. A retried task that is final runs anew as another task. Name them one by one, or choose
    them by --status and the other options.
    """
    refuse_unclear(task_ids, choice, STATUSES)
    with opened(common) as app:
        chosen = not_retried_yet if action == "retry" else fitting
        ids = named_all(app, task_ids) or ask(chosen(app, choice), choice, _WORDS[action], yes)
        outcome = Outcome()
        app.force_many(
            action, ids, by=by, reason=reason, source=COMMAND_LINE,
            on_batch=lambda batch: _add(outcome, batch),
        )  # fmt: skip
    return report(common, "forced", outcome)


def _add(outcome: Outcome, batch: "Sequence[Forced]") -> None:
    for one in batch:
        if one.refused is not None:
            is_there = one.status != NOT_THERE
            outcome.skip(one.task_id, one.refused, Exit.NO if is_there else Exit.NO_TASK)
            continue
        outcome.done.append(
            {"id": one.task_id, "changed": one.is_changed, "status": one.status}
            | ({"new_id": one.new_id} if one.new_id else {})
        )
        if one.new_id:
            outcome.lines.append(f"{one.task_id} runs again as {one.new_id}")
        else:
            outcome.lines.append(
                f"{one.task_id} {'is' if one.is_changed else 'was already'} {one.status}"
            )


@click.command("approve", cls=Verb)
@click.argument("task_ids", metavar="[ID]...", nargs=-1)
@click.option("--all", "is_all", is_flag=True, help="All that recovery holds.")
@by_option
@click.option("--yes", "-y", is_flag=True, help="Do not ask before all are approved.")
@with_common
def approve(common: Common, /, *, task_ids: Sequence[str], is_all: bool, by: str, yes: bool) -> int:
    """Let tasks run that recovery holds for approval (recovery mode manual)."""
    if bool(task_ids) == is_all:
        raise click.UsageError("give the ids of held tasks, or --all")
    outcome, approved = Outcome(), list[str]()
    with opened(common) as app:
        if is_all:
            held = app.held_recoveries()
            confirm(f"{count(len(held), 'held task')} will be approved.", yes or not held)
            approved = app.approve_recovery(held, by=by, source=COMMAND_LINE)
            outcome.lines += [f"{one} may run" for one in approved]
        for one in named_all(app, task_ids):
            try:
                approved += app.approve_recovery(one, by=by, source=COMMAND_LINE)
                outcome.lines.append(f"{one} may run")
            except (InvalidTransition, TaskNotFound) as error:
                outcome.skip(one, str(error), exit_for(error))
    data = {"approved": approved, "skipped": outcome.skipped}
    show(common, View(data, [Lines(outcome.lines or ["Nothing is held."])]))
    return outcome.code
