"""A payload with its sum in one piece is what `encode` and `payload_sum` make of it one by one."""

import math
from typing import Any

import pytest

from outlast.domain import codec
from outlast.errors import PayloadRejected

NESTED: list[Any] = []
for _ in range(65):
    NESTED = [NESTED, 1]


@pytest.mark.parametrize(
    "payload", [None, "null", 0, 1.5, {"a": [1, None, "ü"]}, (1, 2), "x" * 500, {"a": "y" * 127}]
)
def test_it_is_the_same_text_and_the_same_sum(payload: Any) -> None:
    text = None if payload is None else codec.encode(payload, "payload")
    expected = text, codec.payload_sum("t", "work", text)
    assert codec.encode_payload("t", "work", payload, "payload") == expected


@pytest.mark.parametrize(
    "payload", [{"a": math.nan}, [math.inf], b"bytes", {1}, {1: "one"}, object(), NESTED]
)
def test_it_refuses_what_would_be_lost_on_the_way_in_the_same_words(payload: Any) -> None:
    """Guards the short check of small payloads: the encoder itself would store null for NaN."""
    with pytest.raises(PayloadRejected) as by_steps:
        codec.encode(payload, "payload")
    with pytest.raises(PayloadRejected) as at_once:
        codec.encode_payload("t", "work", payload, "payload")
    assert str(at_once.value) == str(by_steps.value)
