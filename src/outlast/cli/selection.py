"""Choosing tasks by status, queue, group and kind: the same options for listing and for bulk."""

from collections.abc import Callable
from functools import update_wrapper
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from outlast.cli.output.text import count

if TYPE_CHECKING:
    from outlast import Outlast, Snapshot, Task

STATUSES = ("pending", "running", "completed", "failed", "cancelled")


class Choice(NamedTuple):
    """Which tasks are meant when they are not named one by one."""

    status: str | None
    queue: str | None
    group: str | None
    kind: str | None

    def fits(self, task: "Task") -> bool:
        """Whether a task of the right queue and group is meant."""
        return self.status in (None, task.status.value) and self.kind in (None, task.kind)

    def in_words(self, number: int) -> str:
        """The scope and the count, as they are shown before anything is done."""
        parts = [count(number, f"{self.status} task")]
        parts += [f"of kind {self.kind}"] if self.kind else []
        parts += [f"in queue {self.queue}"] if self.queue else []
        parts += [f"of group {self.group}"] if self.group else []
        return " ".join(parts)


def selection(function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command --status, --queue, --group and --kind, as one argument `choice`."""

    def inner(
        *args: Any,
        status: str | None,
        queue: str | None,
        group: str | None,
        kind: str | None,
        **kwargs: Any,
    ) -> Any:
        return function(*args, choice=Choice(status, queue, group, kind), **kwargs)

    options = [
        click.option("--status", type=click.Choice(STATUSES), help="Only tasks in this status."),
        click.option("--queue", metavar="NAME", help="Only tasks of this queue."),
        click.option("--group", metavar="NAME", help="Only tasks of this group."),
        click.option("--kind", metavar="NAME", help="Only tasks of this kind."),
    ]
    wrapped: Callable[..., Any] = update_wrapper(inner, function)
    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped


def everything(app: "Outlast", choice: Choice, *, of_any_status: bool = False) -> "Snapshot":
    """All tasks of the queue and the group, newest first, as they stood at one moment."""
    status = None if of_any_status else choice.status
    return app.snapshot(status, choice.queue, choice.group)


def newest(app: "Outlast", choice: Choice, limit: int) -> list["Task"]:
    """The newest tasks that fit, from one consistent read."""
    if choice.kind is None:
        return app.tasks(choice.status, choice.queue, choice.group, limit)
    with everything(app, choice) as tasks:
        return list(islice(filter(choice.fits, tasks), limit))
