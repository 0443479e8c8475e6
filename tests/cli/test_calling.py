"""Calling the command: options in any place, which store is meant, exit codes, sentences."""

from pathlib import Path

import click
import pytest

from outlast import Outlast, Settings, errors
from outlast.cli.command import Verbs
from outlast.cli.exits import MEANINGS, Exit, exit_for
from outlast.cli.main import cli
from outlast.errors import OutcomeUnknown, OutlastError, StoreNotFound, TaskNotFound
from tests.cli.conftest import Call


def test_without_a_store_a_command_says_how_to_choose_one(bare: Call) -> None:
    said = bare("task", "list")
    assert (said.code, said.out) == (Exit.USAGE, "")
    assert said.err.count("\n") == 1
    for way in ("--store PATH", "OUTLAST_STORE", "settings file"):
        assert way in said.err


@pytest.mark.parametrize(
    "words",
    [
        ("--store", "a.db", "task", "list"),
        ("task", "--store", "a.db", "list"),
        ("task", "list", "--store", "a.db"),
        ("task", "list", "--store", "sqlite:///a.db"),
        ("--store", "nowhere.db", "task", "list", "--store", "a.db"),
    ],
)
def test_the_store_may_be_named_before_and_after_the_command(
    bare: Call, tmp_path: Path, words: tuple[str, ...]
) -> None:
    with Outlast(tmp_path / "a.db") as app:
        app.enqueue("greet", id="t1")
    assert "t1" in bare(*words).out
    assert [task["id"] for task in bare("--json", *words).data] == ["t1"]
    assert [task["id"] for task in bare(*words, "--json").data] == ["t1"]


def test_an_option_comes_before_the_environment_and_that_before_the_file(
    bare: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("argument", "variable", "file"):
        with Outlast(tmp_path / f"{name}.db") as app:
            app.enqueue("greet", id=name)
    (tmp_path / "mine.toml").write_text('store = "file.db"\n')
    listing = ("task", "list", "--json", "--settings", "mine.toml")
    assert bare(*listing).data[0]["id"] == "file"
    monkeypatch.setenv("OUTLAST_STORE", "variable.db")
    assert bare(*listing).data[0]["id"] == "variable"
    assert bare(*listing, "--store", "argument.db").data[0]["id"] == "argument"


def test_the_settings_file_of_the_folder_is_used(bare: Call, tmp_path: Path) -> None:
    (tmp_path / "outlast.toml").write_text('store = "work.db"\nmax_retries = 7\n')
    task_id = bare("enqueue", "greet").out.strip()
    assert Outlast(tmp_path / "work.db", settings=Settings()).get(task_id).max_retries == 7


def test_a_settings_file_that_cannot_be_understood_is_refused_in_one_sentence(
    bare: Call, tmp_path: Path
) -> None:
    (tmp_path / "outlast.toml").write_text("max_retrys = 7\n")
    said = bare("enqueue", "greet", "--store", "work.db")
    assert (said.code, said.out, said.err.count("\n")) == (Exit.USAGE, "", 1)
    assert "max_retries" in said.err
    assert not (tmp_path / "work.db").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("task", "list"),
        ("task", "show", "t1"),
        ("task", "why", "t1"),
        ("task", "retry", "t1"),
        ("task", "cancel", "t1"),
        ("task", "cancel", "--status", "pending", "--yes"),
        ("queue", "pause", "default"),
        ("queue", "resume", "default"),
        ("queue", "stats"),
        ("worker", "list"),
        ("store", "migrate"),
        ("store", "migrate", "--verify"),
    ],
)
def test_only_up_and_enqueue_make_a_store(bare: Call, tmp_path: Path, words: tuple[str]) -> None:
    said = bare("--store", "missing.db", *words)
    assert (said.code, said.out) == (Exit.NO_STORE, "")
    assert "there is no store at" in said.err
    assert said.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_health_of_a_missing_store_is_a_failure_and_makes_nothing(
    bare: Call, tmp_path: Path
) -> None:
    said = bare("--store", "missing.db", "health")
    assert said.code == 2
    assert "there is no store at" in said.out
    assert list(tmp_path.iterdir()) == []


def test_a_task_that_is_not_there_has_a_code_of_its_own(outlast: Call, app: Outlast) -> None:
    app.open()
    for verb in ("show", "why", "retry", "cancel"):
        assert outlast("task", verb, "nobody").code == Exit.NO_TASK


def test_a_file_that_is_no_store_has_a_code_of_its_own(bare: Call, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a database, but long enough to look like one" * 20)
    for words in (("task", "list"), ("enqueue", "greet"), ("store", "migrate")):
        said = bare(*words, "--store", "notes.txt")
        assert (said.code, said.out) == (Exit.STORE_UNUSABLE, "")
        assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ("nonsense",),
        ("task", "nonsense"),
        ("task", "show"),
        ("task", "list", "--nonsense"),
        ("task", "list", "--limit", "0"),
        ("task", "list", "--status", "asleep"),
        ("task", "list", "--watch=x"),
        ("completion", "tcsh"),
    ],
)
def test_a_wrong_call_is_answered_in_one_sentence_that_points_to_the_help(
    bare: Call, words: tuple[str, ...]
) -> None:
    said = bare(*words)
    assert (said.code, said.out) == (Exit.USAGE, "")
    assert said.err.startswith("outlast: ")
    assert said.err.count("\n") == 1
    assert "--help'" in said.err


def test_an_error_nobody_expected_shows_no_traceback_unless_asked(
    bare: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(*args: object) -> None:
        raise RuntimeError("the sky fell")

    monkeypatch.setattr("outlast.cli.commands.task.newest", break_down)
    monkeypatch.setattr("outlast.cli.open_store.os.path.lexists", lambda path: True)
    said = bare("task", "list", "--store", "work.db")
    assert (said.code, said.out, said.err.count("\n")) == (Exit.UNEXPECTED, "", 1)
    assert "RuntimeError: the sky fell" in said.err
    monkeypatch.setenv("OUTLAST_DEBUG", "1")
    assert "break_down" in bare("task", "list", "--store", "work.db").err


def test_every_error_of_the_tree_leads_to_a_documented_code() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    ours = [kind for kind in kinds if issubclass(kind, OutlastError)]
    assert len(ours) > 25
    for kind in ours:
        assert exit_for(kind.__new__(kind)) in MEANINGS
    assert exit_for(TaskNotFound("t1")) == 4
    assert exit_for(StoreNotFound("x")) == 3
    assert exit_for(OutcomeUnknown(["t1"], "disk")) == 6


def _groups(group: Verbs, context: click.Context) -> list[Verbs]:
    below = [group.get_command(context, name) for name in group.list_commands(context)]
    return [
        group,
        *(found for one in below if isinstance(one, Verbs) for found in _groups(one, context)),
    ]


def test_the_help_knows_each_commands_first_line_without_loading_it() -> None:
    context = click.Context(cli)
    for group in _groups(cli, context):
        for name, lazy in group.lazy.items():
            found = group.get_command(context, name)
            assert found is not None
            assert found.get_short_help_str(200) == lazy.short_help
