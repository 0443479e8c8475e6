import hashlib
import json
import math
from dataclasses import dataclass
from typing import Any

import pytest

from outlast.domain import codec
from outlast.errors import PayloadRejected

NAN, INF = math.nan, math.inf


@dataclass
class Point:
    x: float


class Opaque:
    """Nothing JSON knows; pickle would take it, and give itself away."""

    def __reduce__(self) -> Any:
        raise AssertionError("the value was about to be pickled")


def _nested(levels: int) -> Any:
    value: Any = 0
    for level in range(levels):
        value = [value] if level % 2 else {"in": value}
    return value


def _cycle() -> list[Any]:
    ring: list[Any] = []
    ring.append(ring)
    return ring


PLAIN: list[Any] = [
    None, True, 0, -1, 2**63, 2**70, 1.5, -0.0, 1e308, "", "null", "日本 🜁 \0 \x1f", [], {}, [[]],
    {"": None}, {"a": [1, {"b": None}]},
]  # fmt: skip


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_what_json_can_say_comes_back_as_it_went_in(value: Any) -> None:
    text = codec.encode(value, "payload")
    assert json.loads(text) == value
    back = codec.decode(text)
    assert (back, type(back)) == (value, type(value))


@pytest.mark.parametrize(
    ("value", "expected"),
    [((1, (2,)), [1, [2]]), ({"a": (1,)}, {"a": [1]}), (Point(1.5), {"x": 1.5})],
)
def test_tuples_and_records_come_back_in_their_json_form(value: Any, expected: Any) -> None:
    assert codec.decode(codec.encode(value, "payload")) == expected


@pytest.mark.parametrize(
    "value",
    [
        b"\x00\xff", [b"x"], bytearray(b"x"), {"a": {1, 2}}, frozenset([NAN]), {1: "a"},
        {1: "a", "1": "b"}, {"a": [{2.5: 1}]}, {NAN: 1}, Point({2: 1}),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_what_json_could_only_carry_in_disguise_is_refused(value: Any) -> None:
    with pytest.raises(PayloadRejected, match="which JSON cannot carry"):
        codec.encode(value, "payload")


@pytest.mark.parametrize("value", [Opaque(), Opaque, len, [Opaque()], {"a": Opaque()}, _cycle()])
@pytest.mark.proves("QUE-11")
def test_what_json_cannot_say_is_refused_and_never_pickled(value: Any) -> None:
    with pytest.raises(
        PayloadRejected, match=r"^payload is (not storable as JSON: |nested too deeply)"
    ):
        codec.encode(value, "payload")


@pytest.mark.parametrize("number", [NAN, INF, -INF])
@pytest.mark.parametrize(
    "hide",
    [
        lambda n: n,
        lambda n: [n],
        lambda n: {"a": {"b": [1, "null", n]}},
        lambda n: (1, (n,)),
        Point,
        lambda n: [None, Point(n)],
    ],
)
@pytest.mark.proves("QUE-11")
def test_nan_and_infinity_are_found_wherever_they_hide(number: float, hide: Any) -> None:
    with pytest.raises(PayloadRejected, match="NaN or an infinity"):
        codec.encode(hide(number), "payload")


@pytest.mark.parametrize("value", ["\ud800", ["a\udfff"], {"\udc80": 1}])
def test_a_lone_surrogate_is_refused(value: Any) -> None:
    with pytest.raises(PayloadRejected, match="surrogates"):
        codec.encode(value, "payload")


@pytest.mark.parametrize("fill", ["x", "é", "🜁"])
def test_a_value_may_take_one_mebibyte_and_not_a_byte_more(fill: str) -> None:
    room = codec.MAX_PAYLOAD_BYTES - len('""')
    assert codec.MAX_PAYLOAD_BYTES == 1 << 20
    width = len(fill.encode())
    fits = fill * (room // width) + "x" * (room % width)
    assert len(codec.encode(fits, "payload").encode()) == 1 << 20
    with pytest.raises(PayloadRejected, match=r"1048577 bytes .* at most 1048576"):
        codec.encode(fits + "x", "payload")


def test_a_value_may_nest_64_levels_and_not_one_more() -> None:
    deepest = _nested(64)
    assert codec.decode(codec.encode(deepest, "payload")) == deepest
    for levels in (65, 66, 400, 50_000):
        with pytest.raises(PayloadRejected):
            codec.encode(_nested(levels), "payload")


def test_brackets_in_a_text_are_not_depth() -> None:
    text = "[{" * 500
    assert codec.decode(codec.encode([text], "payload")) == [text]
    assert codec.encode([[n] for n in range(500)], "payload").count("[") == 501


def test_a_refusal_names_what_was_refused_and_shows_nothing_of_it() -> None:
    with pytest.raises(PayloadRejected) as refused:
        codec.encode({"secret": "s3cr3t", "bad": NAN}, "result")
    assert str(refused.value).startswith("result ")
    assert "s3cr3t" not in str(refused.value)


def test_the_payload_sum_sees_any_change_of_id_kind_or_payload() -> None:
    same = codec.payload_sum("id", "kind", '{"a":1}')
    assert same == codec.payload_sum("id", "kind", '{"a":1}')
    others = [
        codec.payload_sum("ie", "kind", '{"a":1}'),
        codec.payload_sum("id", "king", '{"a":1}'),
        codec.payload_sum("id", "kind", '{"a":3}'),
        codec.payload_sum("id", "kind", '{"a":1} '),
        codec.payload_sum("id", "kind", None),
        codec.payload_sum("i", "dkind", '{"a":1}'),
    ]
    assert same not in others
    assert len(set(others)) == len(others)


def test_every_single_flipped_bit_changes_the_sums() -> None:
    text = '{"path":"a.pdf","pages":[1,2,3]}'
    payload_sum, result_sum = codec.payload_sum("t", "k", text), codec.result_sum("t", text)
    for at in range(len(text)):
        for bit in range(7):
            flipped = text[:at] + chr(ord(text[at]) ^ 1 << bit) + text[at + 1 :]
            assert codec.payload_sum("t", "k", flipped) != payload_sum
            assert codec.result_sum("t", flipped) != result_sum


def test_the_result_sum_belongs_to_one_task_and_tells_no_result_from_null() -> None:
    assert codec.result_sum("a", "1") != codec.result_sum("b", "1")
    assert codec.result_sum("a", None) != codec.result_sum("a", "null")


def test_a_snapshot_sum_is_its_sha256() -> None:
    assert codec.snapshot_sum("{}") == "sha256:" + hashlib.sha256(b"{}").hexdigest()


@pytest.mark.proves("IDM-05")
def test_the_request_hash_is_the_sha256_of_canonical_json() -> None:
    canonical = json.dumps(["k", {"a": 1, "b": [1, {"c": None, "d": 2}]}], separators=(",", ":"))
    expected = "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()
    assert codec.request_hash("k", {"b": [1, {"d": 2, "c": None}], "a": 1}) == expected


@pytest.mark.parametrize(
    ("kind", "payload"),
    [("other", {"a": [1, 2]}), ("k", {"a": [2, 1]}), ("k", {"a": ["1", 2]}), ("k", None)],
)
def test_another_request_has_another_hash(kind: str, payload: Any) -> None:
    assert codec.request_hash(kind, payload) != codec.request_hash("k", {"a": [1, 2]})
