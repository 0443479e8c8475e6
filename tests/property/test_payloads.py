import json
import random
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from outlast import PayloadRejected
from outlast.domain import codec

numbers = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | st.text()
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)


@dataclass
class Holder:
    held: Any


def _buried(core: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Something deep inside of lists, tuples, objects and records, beside harmless values."""
    return st.recursive(
        core,
        lambda inner: st.one_of(
            st.tuples(values, inner),
            st.tuples(inner, values).map(list),
            st.fixed_dictionaries({"beside": values, "it": inner}),
            inner.map(Holder),
        ),
        max_leaves=1,
    )


@given(values)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    """By the standard library's judgement, which tells 1 from 1.0 and True, and keeps order."""
    again = codec.decode(codec.encode(value, "payload"))
    assert json.dumps(again) == json.dumps(value)


@given(st.integers())
def test_a_whole_number_comes_back_exactly_or_is_refused(number: int) -> None:
    try:
        text = codec.encode([number], "payload")
    except PayloadRejected:
        return
    assert codec.decode(text) == [number]


@given(_buried(st.sampled_from([float("nan"), float("inf"), float("-inf")])))
def test_nan_and_infinity_are_refused_wherever_they_hide(value: Any) -> None:
    """The encoder alone would store them as null, in silence."""
    with pytest.raises(PayloadRejected):
        codec.encode(value, "payload")


@given(_buried(st.sampled_from([b"bytes", {1, 2}, {1: "one"}, object()])))
def test_what_json_does_not_know_is_refused_wherever_it_hides(value: Any) -> None:
    with pytest.raises(PayloadRejected):
        codec.encode(value, "payload")


@given(st.integers(1, 3 * codec.MAX_DEPTH), st.sampled_from(["list", "object"]))
def test_only_what_is_nested_too_deeply_is_refused_for_its_depth(depth: int, kind: str) -> None:
    value: Any = 1
    for _ in range(depth):
        value = [value] if kind == "list" else {"in": value}
    if depth <= codec.MAX_DEPTH:
        assert codec.decode(codec.encode(value, "payload")) == value
    else:
        with pytest.raises(PayloadRejected, match="nested deeper"):
            codec.encode(value, "payload")


@given(st.text(), values, st.randoms(use_true_random=False))
def test_a_request_is_the_same_in_whatever_order_its_keys_come(
    kind: str, payload: Any, chance: random.Random
) -> None:
    shuffled = _shuffled(payload, chance)
    assert codec.request_hash(kind, shuffled) == codec.request_hash(kind, payload)


@given(st.tuples(st.text(), values), st.tuples(st.text(), values))
def test_requests_that_differ_have_different_hashes(
    one: tuple[str, Any], other: tuple[str, Any]
) -> None:
    assume(json.dumps(one, sort_keys=True) != json.dumps(other, sort_keys=True))
    assert codec.request_hash(*one) != codec.request_hash(*other)


def _shuffled(value: Any, chance: random.Random) -> Any:
    if isinstance(value, list):
        return [_shuffled(one, chance) for one in value]
    if isinstance(value, dict):
        items = [(key, _shuffled(one, chance)) for key, one in value.items()]
        chance.shuffle(items)
        return dict(items)
    return value
