"""What all commands have in common: the options that stand anywhere, and loading when asked for."""

import re
from collections.abc import Callable, Mapping
from functools import update_wrapper
from importlib import import_module
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import click

from outlast.errors import InvalidInput

P = ParamSpec("P")
R = TypeVar("R")

ENTRY_POINTS = "outlast.commands"

_KEY = "outlast.common"
_COMMON = ("store", "settings", "as_json", "is_verbose")
_SECONDS = re.compile(r"[0-9]+(\.[0-9]+)?")

WATCH_SECONDS = 2.0


class Common:
    """What was said before or after a command's name; the later word wins."""

    def __init__(self) -> None:
        self.store: str | None = None
        self.settings: str | None = None
        self.as_json = False
        self.is_verbose = False


def common_of(context: click.Context) -> Common:
    """The common options of this call, shared by all its nested contexts."""
    found = context.meta.setdefault(_KEY, Common())
    assert isinstance(found, Common)
    return found


def with_common(function: Callable[Concatenate[Common, P], R]) -> Callable[P, R]:
    """Hand the common options to a command as its first argument."""

    def inner(*args: P.args, **kwargs: P.kwargs) -> R:
        return function(common_of(click.get_current_context()), *args, **kwargs)

    return update_wrapper(inner, function)


def _remember(context: click.Context, param: click.Parameter, value: Any) -> None:
    if value and not context.resilient_parsing:
        setattr(common_of(context), str(param.name), value)


def _common_options() -> list[click.Parameter]:
    shared: dict[str, Any] = {"expose_value": False, "callback": _remember}
    return [
        click.Option(
            ["--store"], metavar="PATH", **shared,
            help="The store's file; else OUTLAST_STORE, else the one the settings file names.",
        ),
        click.Option(
            ["--settings"], metavar="FILE", **shared,
            help="The settings file; else OUTLAST_SETTINGS, else outlast.toml or outlast.yaml.",
        ),
        click.Option(
            ["--json", "as_json"], is_flag=True, **shared, help="Answer with one JSON document."
        ),
        click.Option(
            ["-v", "--verbose", "is_verbose"], is_flag=True, **shared,
            help="Say on stderr what the library does and why.",
        ),
    ]  # fmt: skip


def _format_options(
    command: click.Command, context: click.Context, formatter: click.HelpFormatter
) -> None:
    """The command's own options first, those that all commands have in a section of their own."""
    own: list[tuple[str, str]] = []
    common: list[tuple[str, str]] = []
    for param in command.get_params(context):
        record = param.get_help_record(context)
        if record is not None and isinstance(param, click.Option):
            is_common = param.name in _COMMON or "--help" in param.opts
            (common if is_common else own).append(record)
    for title, rows in (("Options", own), ("Options of every command", common)):
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)


class Verb(click.Command):
    """A command that knows the common options."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend(_common_options())

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Let --watch stand without a number, whatever follows it."""
        if any(param.name == "watch" for param in self.params):
            takes_words = any(isinstance(param, click.Argument) for param in self.params)
            args = _with_seconds(args, takes_words)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Let the library's log speak before the command runs."""
        from outlast.cli.logs import turn_on

        turn_on(is_verbose=common_of(ctx).is_verbose)
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The command's own options, then the common ones."""
        _format_options(self, ctx, formatter)


def _with_seconds(args: list[str], takes_words: bool) -> list[str]:
    """A word that cannot be anything else is taken for the number, and refused if it is none."""
    given = []
    for place, word in enumerate(args):
        follows = args[place + 1] if place + 1 < len(args) else ""
        is_other = takes_words or not follows or follows.startswith("-")
        lacks_number = word == "--watch" and is_other and not _SECONDS.fullmatch(follows)
        given.append(f"--watch={WATCH_SECONDS:g}" if lacks_number else word)
    return given


def watch_option(function: Callable[P, R]) -> Callable[P, R]:
    """Gives a view the option --watch [SECONDS]."""
    option: Callable[[Callable[P, R]], Callable[P, R]] = click.option(
        "--watch",
        type=click.FloatRange(min=0.05),
        metavar="[SECONDS]",
        help="Show it again every so often (2 s), until Ctrl-C; with --json one document a line.",
    )
    return option(function)


class Lazy(NamedTuple):
    """A command that is imported when it is called; its line in the help is known before."""

    module: str
    name: str
    short_help: str


class Installed(NamedTuple):
    """A command of a distribution of its own, which names it as an entry point."""

    distribution: str
    short_help: str


def _load(name: str, found: Lazy | Installed) -> click.Command:
    if isinstance(found, Lazy):
        command = getattr(import_module(found.module), found.name)
    else:
        from importlib.metadata import entry_points

        points = entry_points(group=ENTRY_POINTS, name=name)
        command = next(iter(points)).load() if points else _not_installed(name, found.distribution)
    assert isinstance(command, click.Command)
    return command


def _not_installed(name: str, distribution: str) -> click.Command:
    """Stands in for a command that is not there, and takes whatever it is called with."""

    def say(words: tuple[str, ...]) -> None:
        raise InvalidInput(f"outlast {name} is a package of its own: pip install {distribution}")

    return click.Command(
        name,
        callback=say,
        params=[click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)],
        context_settings={"ignore_unknown_options": True},
        add_help_option=False,
    )


class Verbs(click.Group):
    """A group of commands, each imported when it is asked for."""

    def __init__(
        self, *args: Any, lazy: Mapping[str, Lazy | Installed] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = dict(lazy or {})
        self.params.extend(_common_options())

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names in the order they were written down."""
        return [*self.lazy, *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now if it was not before."""
        found = self.lazy.get(cmd_name)
        if found is None:
            return super().get_command(ctx, cmd_name)
        return _load(cmd_name, found)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One line each, without importing any."""
        rows = [(name, found.short_help) for name, found in self.lazy.items()]
        rows += [(name, command.get_short_help_str(100)) for name, command in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options, then the commands."""
        _format_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)
