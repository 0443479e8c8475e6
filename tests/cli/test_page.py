"""docs/cli.md describes the command line as it is: all of it, and nothing else."""

import re
from collections.abc import Iterator

import click

from outlast.cli.exits import MEANINGS
from outlast.cli.main import cli
from tests.docs.pages import DOCS, section, spans, table

PAGE = DOCS / "cli.md"
COMMON = {"--store", "--settings", "--json", "--verbose", "-v", "--help", "-h"}


def commands(
    group: click.Group = cli, path: str = "outlast"
) -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, with the words that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from commands(found, f"{path} {name}")
        else:
            yield f"{path} {name}", found


COMMANDS = dict(commands())


def options_of(command: click.Command) -> set[str]:
    found = [one for one in command.params if isinstance(one, click.Option)]
    return {name for one in found for name in (*one.opts, *one.secondary_opts)}


def options_on(text: str) -> list[str]:
    cells = [row[0] for row in table(text)[1:]]
    return [word.split()[0] for cell in cells for word in spans(cell)]


def test_every_command_has_a_section_and_no_section_is_about_nothing() -> None:
    headings = re.findall(r"^### `(outlast [\w -]+)`$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert len(headings) == len(set(headings))
    assert set(headings) == set(COMMANDS)
    assert len(COMMANDS) > 10


def test_every_option_of_a_command_is_listed_and_no_other() -> None:
    wrong = []
    for path, command in COMMANDS.items():
        text = section(PAGE, f"`{path}`")
        own = options_of(command) - COMMON
        listed = options_on(text) if own else []
        if sorted(listed) != sorted(own):
            wrong.append(f"{path} lists {sorted(listed)}, not {sorted(own)}")
        named = set(re.findall(r"--[a-z][a-z-]*", text))
        wrong += [f"{path} names {word}" for word in named - own - COMMON]
    assert wrong == []


def test_every_command_and_every_option_explains_itself() -> None:
    silent = [path for path, command in COMMANDS.items() if not command.help]
    silent += [
        f"{path} {param.name}"
        for path, command in COMMANDS.items()
        for param in command.params
        if isinstance(param, click.Option) and not param.help
    ]
    assert silent == []


def test_the_common_options_are_those_of_every_command_and_all_listed() -> None:
    shared = set.intersection(*(options_of(command) for command in COMMANDS.values()))
    assert shared | {"--help", "-h"} == COMMON
    assert set(options_on(section(PAGE, "Options of every command"))) == COMMON


def test_the_exit_codes_on_the_page_and_in_the_help_are_those_there_are() -> None:
    rows = table(section(PAGE, "Exit codes"))[1:]
    assert {int(code.strip("`")): meaning for code, meaning in rows} == {
        code.value: meaning for code, meaning in MEANINGS.items()
    }
    shown = cli.get_help(click.Context(cli, info_name="outlast"))
    for code, meaning in MEANINGS.items():
        assert re.search(rf"^\s+{code.value}\s+{re.escape(meaning)}$", shown, re.MULTILINE)
