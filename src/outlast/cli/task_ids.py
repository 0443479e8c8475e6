"""Which task is meant: an id in full, or as much of its beginning as no other task has."""

from typing import TYPE_CHECKING

import click

from outlast.cli.exits import Exit

if TYPE_CHECKING:
    from outlast import Outlast

SHORTEST = 4
_NAMED_AT_MOST = 3


class TooShort(click.UsageError):
    """Too little of an id to tell which task is meant: there is none by that name."""

    exit_code = Exit.NO_TASK


def named(app: "Outlast", given: str) -> str:
    """The id that is meant; what fits no task stays as it is, for the verb to refuse.

    An id in full always means itself, even if others begin like it.
    """
    found = app.ids(given, _NAMED_AT_MOST + 1) if given else []
    if given in found or not found:
        return given
    if len(given) < SHORTEST:
        raise TooShort(
            f"no task {given}; of an id that begins so give at least {SHORTEST} characters"
        )
    if len(found) == 1:
        return found[0]
    shown = ", ".join(found[:_NAMED_AT_MOST])
    more = " and more" if len(found) > _NAMED_AT_MOST else ""
    raise click.UsageError(f"several ids begin with {given}: {shown}{more}; give more of it")
