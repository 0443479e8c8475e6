"""Many values encoded at once come out as each of them alone would, or not at all."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from outlast.domain import codec
from outlast.errors import PayloadRejected

PLAIN: list[Any] = [
    {"path": "a.pdf", "pages": [1, 2.5, None, True]},
    "lines\nand\r\nreturns\u2028and\0nothing",
    "ü€\U0001f600",
    "",
    [],
    {},
    0,
    -1.5,
    False,
    "null",
    {"null": None},
]


def _nested(levels: int) -> Any:
    value: Any = "x" * (3 * codec.MAX_DEPTH)
    for _ in range(levels):
        value = [value]
    return value


def test_each_text_is_the_one_its_value_has_alone() -> None:
    texts = codec.encode_plain(PLAIN)
    assert texts == [codec.encode(value, "payload") for value in PLAIN]


def test_none_among_them_is_null_and_the_text_null_is_not() -> None:
    assert codec.encode_plain([None, "null"]) == ["null", '"null"']


@pytest.mark.parametrize(
    "odd",
    [
        math.nan,
        [math.inf],
        b"bytes",
        {1: "a key that is no text"},
        {1, 2},
        object(),
        "\ud800",
        _nested(codec.MAX_DEPTH + 1),
        "x" * codec.MAX_PAYLOAD_BYTES,
    ],
    ids=["nan", "inf", "bytes", "key", "set", "object", "surrogate", "depth", "size"],
)
def test_one_that_is_refused_alone_spoils_them_all(odd: Any) -> None:
    with pytest.raises(PayloadRejected):
        codec.encode(odd, "payload")
    assert codec.encode_plain(["fine", odd, "fine"]) is None


def test_one_that_changes_its_form_is_left_to_a_closer_look() -> None:
    assert codec.encode_plain(["fine", (1, 2)]) is None
    assert codec.encode((1, 2), "payload") == "[1,2]"


def test_depth_at_the_limit_is_not_refused() -> None:
    value = _nested(codec.MAX_DEPTH)
    assert codec.encode_plain([value]) == [codec.encode(value, "payload")]


@pytest.mark.parametrize("text_of", [lambda n: f'{{"n":{n}}}', lambda n: None])
def test_the_sums_of_many_are_those_of_each(text_of: Callable[[int], str | None]) -> None:
    ids, texts = [f"id-{n}" for n in range(5)], [text_of(n) for n in range(5)]
    each = [codec.payload_sum(one, "kind", text) for one, text in zip(ids, texts, strict=True)]
    assert codec.payload_sums(ids, "kind", texts) == each
