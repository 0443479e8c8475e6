"""Arguments travel as JSON: what was passed is what the function gets, or it is refused at once."""

import dataclasses
import enum
import re
import uuid
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Optional, TypedDict

import msgspec
import pytest

from outlast import InvalidInput, Outlast, PayloadRejected
from outlast.domain import codec
from tests.tasks import later_types


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0
    label: Any = None


@dataclasses.dataclass(eq=False)
class Incomparable:
    x: int


@dataclasses.dataclass
class Tree:
    name: str
    children: list["Tree"] = dataclasses.field(default_factory=list)


class Box(msgspec.Struct):
    size: float


class Pair(NamedTuple):
    left: int
    right: str


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Options(TypedDict, total=False):
    depth: int


NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
SOME_ID = uuid.UUID("0190d6c0-0000-7000-8000-000000000000")
TREE = Tree("root", [Tree("leaf")])

KEPT: list[tuple[Any, Any, Any]] = [
    (str, "é", "é"),
    (int, 1 << 60, 1 << 60),
    (float, 1.5, 1.5),
    (float, 2, 2),
    (bool, True, True),
    (None, None, None),
    (Optional[int], None, None),  # noqa: UP045 - people write it so
    (int | str | None, "x", "x"),
    (list[int], [1, 2], [1, 2]),
    (Sequence[int], [1], [1]),
    (tuple[int, ...], (1, 2), [1, 2]),
    (dict[str, list[int]], {"a": [1]}, {"a": [1]}),
    (dict[int, str], {1: "a"}, {"1": "a"}),
    (set[str], {"a"}, ["a"]),
    (bytes, b"abc", "YWJj"),
    (Literal["a", "b"], "b", "b"),
    (Color, Color.RED, "red"),
    (Level, Level.LOW, 1),
    (datetime, NOON, "2030-01-01T12:00:00Z"),
    (date, NOON.date(), "2030-01-01"),
    (timedelta, timedelta(minutes=5), "PT300S"),
    (uuid.UUID, SOME_ID, str(SOME_ID)),
    (Decimal, Decimal("1.10"), "1.10"),
    (Path, Path("a/b"), "a/b"),
    (Path | None, Path("a/b"), "a/b"),
    (Point, Point(1, 2), {"x": 1, "y": 2, "label": None}),
    (list[Point], [Point(1)], [{"x": 1, "y": 0, "label": None}]),
    (Tree, TREE, {"name": "root", "children": [{"name": "leaf", "children": []}]}),
    (Box, Box(1.5), {"size": 1.5}),
    (Pair, Pair(1, "a"), [1, "a"]),
    (Options, {"depth": 1}, {"depth": 1}),
    (dict[str, Any], {"a": [1, None, {"b": 2.5}]}, {"a": [1, None, {"b": 2.5}]}),
    (Annotated[int, msgspec.Meta(ge=1)], 1, 1),
    (Any, [1, {"a": None}], [1, {"a": None}]),
    (object, "anything", "anything"),
]


def _taking(app: Outlast, annotation: Any) -> Any:
    def take(value: Any) -> None: ...

    take.__annotations__["value"] = annotation
    return app.task(take)


@pytest.mark.parametrize(("annotation", "value", "stored"), KEPT)
def test_an_argument_comes_back_as_it_was_passed(
    app: Outlast, annotation: Any, value: Any, stored: Any
) -> None:
    function = _taking(app, annotation)
    task = function.enqueue(value)
    assert app.get(task.id).payload == {"value": stored}
    (back,) = function.arguments_from(codec.decode(task.stored_payload.text)).values()
    assert back == value
    (again,) = function.arguments_in(task.stored_payload.text).values()
    assert again == value
    assert type(again) is type(back)
    assert type(back) is type(value) or annotation is float


@pytest.mark.parametrize(("annotation", "value", "stored"), KEPT)
def test_its_json_form_may_be_passed_as_well(
    app: Outlast, annotation: Any, value: Any, stored: Any
) -> None:
    function = _taking(app, annotation)
    task = app.enqueue("take", {"value": stored})
    assert task.payload == {"value": stored}
    assert function.arguments_from(task.payload) == {"value": value}


REFUSED: list[tuple[Any, Any, str]] = [
    (int, "1", "must be int: expected `int`, got `str`"),
    (int, 1.0, "must be int: expected `int`, got `float`"),
    (int, True, "must be int: expected `int`, got `bool`"),
    (int, None, "must be int: expected `int`, got `null`"),
    (str, 1, "must be str: expected `str`, got `int`"),
    (str, SOME_ID, "must be str: the UUID given would not come back"),
    (str, Path("a"), "must be str: the PosixPath given would not come back"),
    (float, "x", "must be float: expected `float`, got `str`"),
    (int | None, "x", r"must be int \| None: expected `int \| null`, got `str`"),
    (list[int], [1, "x"], r"must be list\[int\]: expected `int`, got `str`, at value\[1\]"),
    (list[int], {1}, r"must be list\[int\]: the set given would not come back"),
    (Literal["a"], "b", r"must be Literal\['a'\]: invalid enum value 'b'"),
    (Color, "blue", r"Color: invalid enum value 'blue'"),
    (datetime, "soon", r"must be datetime.datetime: invalid RFC3339"),
    (uuid.UUID, "x", "must be uuid.UUID: invalid UUID"),
    (Path, 5, r"must be pathlib\.\S*Path: expected `str`, got `int`"),
    (Point, {"y": 1}, "Point: its field x is missing"),
    (Point, Point("x"), "Point: expected `int`, got `str`, at value.x"),  # type: ignore[arg-type]
    (Point, Point(1, 2, {3}), "Point: the Point given would not come back"),
    (list[Point], [{"x": "y"}], r"expected `int`, got `str`, at value\[0\].x"),
    (Tree, {"name": "a", "children": [{}]}, r"Tree: its field name is missing, at value.children"),
    (Annotated[int, msgspec.Meta(ge=1)], 0, "expected `int` >= 1"),
    (dict[str, Any], {"a": {1}}, r"must be dict\[str, .*Any\]: the dict given would not come back"),
    (dict[str, Any], {"a": NOON}, "the dict given would not come back"),
    (dict[str, Any], {1: "a"}, "the dict given would not come back"),
    (Any, NOON, "must be Any: the datetime given would not come back"),
    (Any, b"abc", "the bytes given would not come back"),
    (Any, {"a"}, "the set given would not come back"),
]


@pytest.mark.parametrize(("annotation", "value", "sentence"), REFUSED)
def test_a_wrong_argument_is_refused_by_function_parameter_and_type(
    app: Outlast, annotation: Any, value: Any, sentence: str
) -> None:
    function = _taking(app, annotation)
    with pytest.raises(InvalidInput, match=rf"^argument value of take\(\) .*{sentence}") as refused:
        function.enqueue(value)
    assert "\n" not in str(refused.value)
    assert not app.path.exists()


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (object(), r"argument value of take\(\) is not storable as JSON: object has no form"),
        ([float("nan")], "payload holds NaN"),
        ("x" * (1 << 20), "at most 1048576 are allowed"),
    ],
    ids=["object", "nan", "long"],
)
def test_what_json_cannot_hold_is_refused_as_a_payload(
    app: Outlast, value: Any, sentence: str
) -> None:
    with pytest.raises(PayloadRejected, match=sentence):
        _taking(app, Any).enqueue(value)


def test_what_contains_itself_is_refused(app: Outlast) -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(PayloadRejected, match="nested too deeply, or contain themselves"):
        _taking(app, Any).enqueue(endless)


def test_objects_that_cannot_be_compared_are_believed(app: Outlast) -> None:
    function = _taking(app, list[Incomparable])
    assert function.enqueue([Incomparable(1)]).payload == {"value": [{"x": 1}]}


def test_tuples_may_stand_for_lists(app: Outlast) -> None:
    assert _taking(app, list[int]).enqueue((1, 2)).payload == {"value": [1, 2]}
    assert app.functions["take"].arguments_from({"value": [1, 2]}) == {"value": [1, 2]}


def test_missing_unexpected_and_doubled_arguments_are_named(app: Outlast) -> None:
    @app.task
    def move(a: int, b: int = 0, *, c: int = 0) -> None: ...

    call: Any = move.enqueue
    for arguments, named, sentence in [
        ((), {}, r"^move\(\) needs its argument a$"),
        ((1,), {"d": 1}, r"^move\(\) takes no argument d; it takes a, b, c$"),
        ((1,), {"a": 1}, r"^move\(\) was given its argument a twice$"),
        ((1, 2, 3), {}, r"^move\(\) takes at most 2 positional arguments, not 3$"),
    ]:
        with pytest.raises(InvalidInput, match=sentence):
            call(*arguments, **named)
    for payload in ([1], "a", 5):
        with pytest.raises(InvalidInput, match=r"move\(\) must be a dict .* such as {\"a\": …"):
            app.enqueue("move", payload)


def test_defaults_are_not_stored_but_left_to_the_function(app: Outlast) -> None:
    @app.task
    def move(a: int, b: list[int] = [7]) -> Any:  # noqa: B006 - a default of its own is the point
        return a, b

    payload = move.enqueue(1).payload
    assert payload == {"a": 1}
    assert move.arguments_from(payload) == move.arguments_in('{"a": 1}') == {"a": 1}
    assert move.fn(**move.arguments_from(payload)) == (1, [7])
    assert move.enqueue(1, [7]).payload == {"a": 1, "b": [7]}


def test_a_stored_payload_that_does_not_fit_is_refused_when_it_would_run(app: Outlast) -> None:
    function = _taking(app, int)
    for payload in (None, {}, {"value": "x"}, {"other": 1}, [1], "x"):
        with pytest.raises(InvalidInput, match=r"take\(\)") as refused:
            function.arguments_from(payload)
        text = None if payload is None else codec.encode(payload, "payload")
        with pytest.raises(InvalidInput, match=f"^{re.escape(str(refused.value))}$"):
            function.arguments_in(text)


def test_types_that_are_defined_later_are_found_when_they_are_needed() -> None:
    assert "name 'Trip' is not defined; import or define it" in later_types.TOO_EARLY
    assert "name 'Stop' is not defined" in later_types.STILL_TOO_EARLY
    trip = later_types.Trip([later_types.Stop("Rome")])
    payload = later_types.travel.payload_of((trip,), {"seats": 2})
    assert payload == {"trip": {"stops": [{"city": "Rome"}]}, "seats": 2}
    assert later_types.travel.arguments_from(payload) == {"trip": trip, "seats": 2}
    text = codec.encode(payload, "payload")
    assert later_types.travel.arguments_in(text) == {"trip": trip, "seats": 2}
    with pytest.raises(InvalidInput, match=r"argument trip of travel\(\) must be Trip: its field"):
        later_types.travel.payload_of(({},), {})


def test_a_type_that_is_never_defined_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"annotation of pay.* name 'Decimal' is not defined"):
        later_types.pay.payload_of((1,), {})
