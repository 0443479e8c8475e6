"""Who gives a command that changes something: by --by, or whoever is logged in."""

from collections.abc import Callable
from typing import Any

import click

COMMAND_LINE = "cli"


def by_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command --by, which always has a name in it."""
    option = click.option(
        "--by", metavar="WHO", callback=_somebody,
        help="Who does it, for the record; else the name you are logged in by.",
    )  # fmt: skip
    return option(function)


def _somebody(context: click.Context, param: click.Parameter, value: str | None) -> str:
    if value is not None:
        return value
    import getpass
    import os

    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):
        return f"uid {os.getuid()}"
