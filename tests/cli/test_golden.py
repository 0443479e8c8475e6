"""Every command answers as the golden files say, in plain text and as one JSON document."""

import json

import click
import pytest

from outlast.cli.main import cli
from tests.cli.golden import CASES, FOLDER, TO_UPDATE, answer, call
from tests.cli.test_page import COMMANDS

pytestmark = pytest.mark.slow

RUNNING = {"outlast up", "outlast worker run", "outlast demo", "outlast metrics serve"}


@pytest.mark.parametrize("name", CASES)
def test_the_plain_answer_is_the_golden_one(name: str) -> None:
    assert answer(CASES[name]) == (FOLDER / f"{name}.txt").read_text("utf-8"), TO_UPDATE


@pytest.mark.parametrize("name", CASES)
def test_the_json_answer_is_the_golden_one_and_a_single_document(name: str) -> None:
    words = f"{CASES[name]} --json"
    assert answer(words) == (FOLDER / f"{name}_json.txt").read_text("utf-8"), TO_UPDATE
    json.loads(call(words)[0].out)


def test_every_command_has_a_golden_answer_and_every_file_is_of_a_case() -> None:
    context = click.Context(cli)
    called = set()
    for words in CASES.values():
        first, second = f"{words} .".split()[:2]
        is_group = isinstance(cli.get_command(context, first), click.Group)
        called.add(f"outlast {first} {second}" if is_group else f"outlast {first}")
    assert called == set(COMMANDS) - RUNNING
    there = {file.name for file in FOLDER.iterdir()}
    assert there == {f"{name}{end}.txt" for name in CASES for end in ("", "_json")}
