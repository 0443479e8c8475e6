"""Text from a store must never act on a terminal, whatever somebody wrote into it."""

import re
from pathlib import Path

import pytest

from outlast import Outlast
from outlast.cli.output.text import safe, safe_json
from tests.cli.conftest import Call
from tests.cli.shell import Terminal, piped

HOSTILE = {
    "colour": "\x1b[31mred",
    "title": "\x1b]0;owned\x07",
    "clear": "\x1b[2J\x1b[H",
    "c1": "\x9b31m",
    "return": "safe\rgone",
    "lines": "one\ntwo\n\nthree",
    "backspace": "a\b\b\b",
    "direction": "\u202edesrever\u202c",
    "joined": "a\u200bb\u2028c",
    "delete": "\x7f",
    "markup": "[bold red]not markup[/bold red] :smile: [link=file:///etc]x[/link]",
}
ACTS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e]")


@pytest.mark.parametrize("text", HOSTILE.values(), ids=list(HOSTILE))
def test_nothing_that_acts_comes_through(text: str) -> None:
    assert not ACTS.search(safe(text))
    assert "\n" not in safe(text)
    assert not ACTS.search(safe_json({"text": text}))
    assert safe_json({"text": text}).isascii()


def test_what_can_be_printed_stays_as_it_is() -> None:
    for text in ("plain", "ümläut", "日本語", "[brackets]", "emoji 🎉"):
        assert safe(text) == text


@pytest.fixture
def infested(database: Path) -> Path:
    """A store in which everything that takes free text has some that is hostile."""
    everything = " ".join(HOSTILE.values())
    with Outlast(database) as app:
        app.enqueue("[red]kind[/red]", {"text": everything}, id="t1", queue="[q]", group="[g]")
        (lease,) = app.claim("[blink]w1[/blink]", queue="[q]")
        lease.checkpoint("iteration_end", {"text": everything})
        lease.fail(everything, retry=False)
    return database


VIEWS = [
    ("task", "list"),
    ("task", "show", "t1"),
    ("task", "show", "t1", "--payload"),
    ("task", "why", "t1"),
    ("queue", "stats"),
    ("worker", "list"),
    ("health",),
]


@pytest.mark.parametrize("words", VIEWS, ids=[" ".join(words) for words in VIEWS])
def test_a_view_in_a_pipe_shows_hostile_text_and_lets_none_of_it_act(
    bare: Call, infested: Path, words: tuple[str, ...]
) -> None:
    for extra in ((), ("--json",)):
        said = bare(*words, *extra, "--store", str(infested))
        assert not ACTS.search(said.out + said.err)
        assert "\x1b" not in said.out + said.err
        assert "[red]kind" in said.out or words[0] != "task" or words[1] == "why"


@pytest.mark.slow
@pytest.mark.parametrize("words", VIEWS, ids=[" ".join(words) for words in VIEWS])
def test_a_view_on_a_terminal_has_only_the_escapes_of_its_own_drawing(
    infested: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    with Terminal(tmp_path, *words, "--store", infested, columns=200) as terminal:
        assert terminal.finish() in (0, 1)
    own = re.compile(r"\x1b\[[0-9;]*m|\r\n")
    rest = own.sub("", terminal.seen)
    assert not ACTS.search(rest)
    if words[:2] in (("task", "list"), ("task", "show")):
        assert "[red]kind[/red]" in rest
        assert "\\x1b[31mred" in rest


def test_an_error_repeats_hostile_words_harmlessly(tmp_path: Path) -> None:
    done = piped(tmp_path, "--store", "work.db\x1b[31m", "task", "show", "t\x1b]0;owned\x07")
    assert done.returncode == 3
    assert not ACTS.search(done.stderr)
    assert "\\x1b[31m" in done.stderr
