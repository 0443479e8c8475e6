from typing import Any

import pytest

from outlast.domain.lifecycle import Status
from outlast.domain.names import checked_name, checked_whole
from outlast.domain.status_words import STATUS_ALIASES, status_named
from outlast.errors import InvalidInput


@pytest.mark.parametrize("name", ["a", "a b", "mail.send/v2", "日本", "x" * 512, "🜁" * 128])
def test_a_name_is_any_short_printable_text(name: str) -> None:
    assert checked_name(name, "kind") == name


@pytest.mark.parametrize(
    "name", ["", None, 5, b"a", "a\0b", "a\n", "\x1b[31m", "\u202e", "\ud800", "x" * 513, "é" * 257]
)
def test_any_other_name_is_refused_in_a_sentence_that_says_which(name: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^queue (must|is longer)"):
        checked_name(name, "queue")


@pytest.mark.parametrize("value", [0, 11, True, 1.0, "3", None])
def test_a_whole_number_is_an_int_within_its_limits(value: Any) -> None:
    assert checked_whole(1, "limit", 1, 10) == 1
    assert checked_whole(10, "limit", 1, 10) == 10
    with pytest.raises(InvalidInput, match="limit must be a whole number from 1 to 10"):
        checked_whole(value, "limit", 1, 10)


@pytest.mark.proves("QUE-02")
@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("pending expired", Status.PENDING),
        ("running claimed processing in_progress rebasing testing RUNNING", Status.RUNNING),
        ("completed processed succeeded", Status.COMPLETED),
        ("failed Failed", Status.FAILED),
        ("cancelled", Status.CANCELLED),
    ],
)
def test_the_words_of_other_systems_mean_one_of_the_five_states(words: str, status: Status) -> None:
    assert {status_named(word) for word in words.split()} == {status}


@pytest.mark.proves("QUE-02")
def test_no_word_of_another_system_is_a_state_of_its_own() -> None:
    assert not set(STATUS_ALIASES) & {status.value for status in Status}
    assert len(STATUS_ALIASES) == 8


@pytest.mark.parametrize("word", ["", "done", "canceled", None, 5])
def test_an_unknown_word_is_refused_with_the_known_ones(word: Any) -> None:
    with pytest.raises(InvalidInput, match="use one of pending, running, completed, failed"):
        status_named(word)
