"""The pages for those who run Outlast: what has to be there is there, is true, and can be typed."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import click
import pytest

from outlast import Outlast, Settings
from outlast.cli.main import cli
from outlast.settings.keys import KNOB_OF_NESTED_KEY
from tests.cli.shell import environment
from tests.cli.test_page import options_of
from tests.docs.pages import DOCS, ROOT, blocks, name_of, pages, prose, section, slugs, spans, table

pytestmark = pytest.mark.slow

OPERATIONS = DOCS / "operations.md"
MANUAL = DOCS / "manual.md"
PRACTICES = DOCS / "best-practices.md"
LIMITS = DOCS / "limits.md"
PAGES = (OPERATIONS, MANUAL, PRACTICES, LIMITS, DOCS / "logs.md", DOCS / "events.md")

SETTINGS = {field.name for field in fields(Settings)}
DEADLINE_SECONDS = 120


def _named_settings(text: str) -> set[str]:
    """Settings that are named, in Python's spelling or as variables."""
    words = {word.split("=")[0].split()[0] for word in spans(text) if word.strip()}
    return (words | {word.removeprefix("OUTLAST_").lower() for word in words}) & SETTINGS


def _causes(title: str) -> dict[str, tuple[str, str]]:
    """The causes of a section of troubleshooting, how to know each, and what to do."""
    rows = table(section(OPERATIONS, title))
    assert rows[0] == ["cause", "how to know", "what to do"]
    found = {row[0]: (row[1], row[2]) for row in rows[1:]}
    assert all(knowing and doing for knowing, doing in found.values())
    return found


def _says(text: str, *words: str) -> bool:
    return all(re.search(word, text, re.IGNORECASE) for word in words)


def _one_says(rows: dict[str, tuple[str, str]], cause: str, *remedy: str) -> None:
    fitting = [doing for name, (_, doing) in rows.items() if _says(name, cause)]
    assert any(_says(doing, *remedy) for doing in fitting), (cause, remedy, fitting)


@pytest.mark.proves("DOC-03")
def test_a_recovery_that_is_too_slow_has_its_causes_and_what_to_do() -> None:
    rows = _causes("Recovery is too slow")
    _one_says(rows, "very many orphans", "heal_batch")
    _one_says(rows, "searched slowly", "store migrate --verify")
    _one_says(rows, "your own function", "subscriber", r"app\.subscribe")
    assert {"heal_batch", "integrity_check_on_startup"} <= _named_settings(
        section(OPERATIONS, "Recovery is too slow")
    )
    assert "recovery.progress" in section(OPERATIONS, "Recovery is too slow")


@pytest.mark.proves("DOC-04")
def test_tasks_that_are_orphaned_again_and_again_have_their_causes_and_what_to_do() -> None:
    rows = _causes("Tasks are orphaned again and again")
    _one_says(rows, "timeout is too short", "longer lease")
    _one_says(rows, "does not beat", r"app\.heartbeat", r"lease\.renew")
    _one_says(rows, "takes longer than its lease", "every phase", "lease_seconds_by_kind")
    _one_says(rows, "clocks", "monotonic clock")


@pytest.mark.proves("DOC-05")
def test_actions_that_are_not_applied_have_their_causes_and_what_to_do() -> None:
    rows = _causes("Actions are not applied")
    _one_says(rows, "kind is left alone", "recovery_action_by_kind", "none")
    _one_says(rows, "transaction .* failed", "went on without it")
    _one_says(rows, "switched off", "switch it on")
    text = section(OPERATIONS, "Actions are not applied")
    assert "`OUTLAST_RECOVERY_ENABLED`" in text
    assert "outlast queue recover --plan" in text
    assert "`-v`" in section(OPERATIONS, "Troubleshooting")


@pytest.mark.proves("DOC-06")
def test_the_failure_modes_of_both_seeds_have_their_rows() -> None:
    rows = table(section(OPERATIONS, "Failure modes"))
    assert rows[0] == ["what fails", "what happens", "what is lost", "what you do"]
    modes = {row[0]: row[1:] for row in rows[1:]}
    assert all(happens and does for happens, _, does in modes.values())
    expected = {
        "recovery itself cannot finish": "RecoveryFailed",
        "database is damaged": "log holds",
        "only in part": "all others are served",
        "crashes with a lock": "named locks are free",
        "SIGKILL": "the same",
        "cannot reach the store": "refused by their token",
        "whole machine dies": "unclean",
        "lease is over while its task still counts as running": "takes it back",
    }
    for mode, happens in expected.items():
        (found,) = [cells for name, cells in modes.items() if mode in name]
        assert happens in found[0], mode


@pytest.mark.proves("DOC-07")
def test_the_glossary_has_the_nine_terms_and_keeps_the_two_checkpoints_apart() -> None:
    rows = table(section(OPERATIONS, "Glossary"))[1:]
    meanings = {word.strip(): meaning for cell, meaning in rows for word in cell.split(",")}
    seed = {
        "crash", "recovery", "orphan", "heartbeat", "stale", "WAL", "checkpoint", "idempotent",
        "lease",
    }  # fmt: skip
    assert seed | {"fencing", "incarnation", "WAL flush"} <= set(meanings)
    assert "checkpoint" in meanings["WAL flush"]
    assert "nothing to do with the WAL" in meanings["checkpoint"]
    assert meanings["WAL flush"] != meanings["checkpoint"]


@pytest.mark.proves("DOC-09")
def test_the_manual_has_its_four_parts_and_they_say_what_matters() -> None:
    configuration = section(MANUAL, "Configuration")
    assert {"recovery_action", "max_recovery_attempts", "recovery_mode"} <= _named_settings(
        configuration
    )
    process = section(MANUAL, "The process")
    steps = re.findall(r"^\d\. \*\*(.+?)\.\*\*", process, re.MULTILINE)
    assert steps == [
        "Unclean shutdown check", "Integrity check", "Log flush", "Detection", "Action", "Report",
    ]  # fmt: skip
    rows = table(section(MANUAL, "The report"))[1:]
    lines = {cell for row in rows for cell in row[0].split(", ")}
    assert {"Integrity Check", "Orphaned Tasks Found", "Dead Workers"} <= lines
    commands = " ".join(spans(section(MANUAL, "Monitoring")))
    for command in ("queue recovery-status", "queue recovery-report", "worker list"):
        assert f"outlast {command}" in commands
    assert "--show-heartbeat" in commands


@pytest.mark.proves("DOC-09")
def test_the_seeds_keys_in_the_manual_are_keys_that_work(tmp_path: Path) -> None:
    (example,) = blocks(MANUAL, "toml")
    (tmp_path / "outlast.toml").write_text(example.text, encoding="utf-8")
    settings = Settings.load(tmp_path / "outlast.toml", environ={})
    assert settings.recovery_action_by_kind == {"pay": "none"}
    assert settings.heartbeat.stale_ms == 90_000
    used = re.findall(r"^(\w+) =", example.text, re.MULTILINE)
    assert {key.rpartition(".")[2] for key in KNOB_OF_NESTED_KEY} & set(used)


@pytest.mark.proves("DOC-11")
def test_the_twelve_practices_are_there_each_with_what_it_is_done_with() -> None:
    headings = re.findall(r"^## (\d+)\. (.+)$", PRACTICES.read_text("utf-8"), re.MULTILINE)
    assert [int(number) for number, _ in headings] == list(range(1, 13))
    means = {
        1: ["recovery_action", "retry", "max_recovery_attempts"],
        2: ["idempotency", "twice", "repeatable"],
        3: ["logs.md", "payloads"],
        4: ["on_batch", "recovery.progress", "ctx.progress"],
        5: ["heartbeat_stale_seconds", "three times", "heartbeat_interval_seconds"],
        6: ["heartbeat_grace_seconds"],
        7: ["--show-heartbeat", "app.heartbeat", "progress"],
        8: ["own row"],
        9: ["before anything is handed out", "app.open()"],
        10: ["outlast queue recovery-report", "app.recovery_report()"],
        11: ["outlast task retry", "--force", "on record"],
        12: ["app.subscribe", "task.failed", "worker.dead"],
    }
    for number, title in headings:
        text = section(PRACTICES, f"{number}. {title}")
        missing = [word for word in means[int(number)] if word not in text]
        assert not missing, f"{number}: {missing}"


@pytest.mark.proves("DOC-15")
def test_the_limits_of_scope_are_listed_with_what_there_is_instead() -> None:
    rows = table(section(LIMITS, "Out of scope"))
    assert rows[0] == ["not included", "instead"]
    found = {row[0]: row[1] for row in rows[1:]}
    for limit in (
        "distributed recovery protocol",
        "a chosen moment",
        "from increments",
        "coordination between nodes",
        "failover by itself",
    ):
        assert any(limit in name and instead for name, instead in found.items()), limit
    boundary = section(LIMITS, "What is yours")
    assert _says(boundary, "the queue", "moves a task makes", "workers", "supervise processes")


def test_every_setting_that_a_page_for_operators_names_exists() -> None:
    words = [(name_of(page), word) for page in PAGES for word in spans(prose(page))]
    variables = [(page, word) for page, word in words if re.match(r"OUTLAST_[A-Z_]", word)]
    assigned = [
        (page, word) for page, word in words if re.fullmatch(r"[a-z]+(_[a-z]+)+ = .+", word)
    ]
    assert variables
    assert assigned
    known = SETTINGS | {"settings", "store", "debug"}
    unknown = [
        (page, word)
        for page, word in variables
        if re.sub(r"OUTLAST_([A-Z_]+).*", r"\1", word).lower() not in known
    ]
    unknown += [(page, word) for page, word in assigned if word.split(" = ")[0] not in SETTINGS]
    assert unknown == []


def _unknown_in(words: list[str]) -> list[str]:
    """What of a call does not exist: its command, or else options that the command has not."""
    context, path = click.Context(cli), ["outlast"]
    command: click.Command = cli
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        if found is None:
            return [f"{' '.join(path)} {words[0]}"]
        command, path, words = found, [*path, words[0]], words[1:]
    known = options_of(command) | {"--help"}
    options = [word for word in words if word.startswith("--") and word != "--"]
    return [f"{' '.join(path)} {word}" for word in options if word.split("=")[0] not in known]


def _calls_on(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Where a page calls the command line, and the words of each call."""
    for block in blocks(page, "console"):
        for line in block.text.splitlines():
            if line.startswith("$ outlast "):
                words = shlex.split(line.removeprefix("$ outlast "), comments=True)
                yield f"{name_of(page)}:{block.line}", words
    for span in spans(prose(page)):
        if span.startswith("outlast ") and "…" not in span and "[" not in span and "|" not in span:
            words = shlex.split(span.removeprefix("outlast "))
            if words[0] != "lab" and "..." not in words:
                yield name_of(page), words


def test_every_command_on_a_page_is_one_with_options_it_has() -> None:
    calls = [call for page in pages() for call in _calls_on(page)]
    assert len(calls) > 20
    assert [f"{where}: {one}" for where, words in calls for one in _unknown_in(words)] == []


@pytest.mark.proves("DOC-09")
def test_the_manual_can_be_typed_along_in_an_empty_folder(tmp_path: Path) -> None:
    """Every command of it, in its order; the report it shows is the one that it has."""
    (config,) = blocks(MANUAL, "toml")
    (jobs,) = blocks(MANUAL, "py")
    (tmp_path / "outlast.toml").write_text(config.text, encoding="utf-8")
    (tmp_path / "jobs.py").write_text(jobs.text, encoding="utf-8")
    said: dict[str, str] = {}
    for block in blocks(MANUAL, "console"):
        for line in block.text.splitlines():
            call, _, comment = line.removeprefix("$ ").partition("#")
            done = _typed(tmp_path, shlex.split(call)[1:])
            said[call.strip()] = done.stdout
            expected = re.match(r"\s*exit (\d)", comment)
            if "is killed" in comment:
                assert done.returncode == -signal.SIGKILL
            else:
                code = int(expected[1]) if expected else 0
                assert done.returncode == code, f"{call}: {done.stdout}{done.stderr}"
    with Outlast(tmp_path / "work.db") as app:
        assert app.get("second").result == "poison.pdf is in"
        assert app.get("second").recovery_count == 1
    (sample,) = (block for block in blocks(MANUAL, "text") if "Recovery Report" in block.text)
    assert _shape(said["outlast queue recovery-report"]) == _shape(sample.text)


def _typed(folder: Path, words: list[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "outlast", *words],
        cwd=folder, env=environment(folder) | {"PATH": os.environ["PATH"]}, capture_output=True,
        text=True, timeout=DEADLINE_SECONDS, check=False,
    )  # fmt: skip


def _shape(report: str) -> list[str]:
    """A report without what differs from run to run; the line on later runs is not part of it."""
    lines = [line for line in report.strip().splitlines() if not line.startswith("(")]
    lines = [re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", line) for line in lines]
    lines = [re.sub(r"[\d.]+m?s\b", "SPAN", line) for line in lines]
    lines = [re.sub(r"\d+ frames", "N frames", line) for line in lines]
    return [re.sub(r"worker-\S+", "WORKER", line) for line in lines]


def test_the_pages_for_operators_are_linked_from_the_readme() -> None:
    linked = re.findall(r"\]\(docs/([\w-]+\.md)", prose(ROOT / "README.md"))
    assert {page.name for page in PAGES} <= set(linked)


def test_the_three_parts_of_troubleshooting_can_be_linked_to() -> None:
    assert {
        "recovery-is-too-slow", "tasks-are-orphaned-again-and-again", "actions-are-not-applied",
        "failure-modes", "glossary",
    } <= slugs(OPERATIONS)  # fmt: skip
