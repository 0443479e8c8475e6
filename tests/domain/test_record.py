"""Records behave like the dataclasses they are, although their methods are compiled later."""

import copy
import dataclasses
import inspect
import pickle
import threading

import pytest

from outlast.domain.record import record


@record(frozen=True, slots=True)
class Point:
    """A point."""

    x: int
    y: int = 0
    label: str = dataclasses.field(default="", repr=False, compare=False)


@record(frozen=True, slots=True, kw_only=True)
class Checked:
    """What checks itself."""

    size: int = 1

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError("too small")

    def __repr__(self) -> str:
        return f"<{self.size}>"


def test_a_record_is_made_compared_and_shown_like_a_dataclass() -> None:
    assert Point(1, y=2, label="a") == Point(1, 2, "b") != Point(1, 3)
    assert Point(1).__eq__((1, 0, "")) is NotImplemented
    assert hash(Point(1, 2, "a")) == hash(Point(1, 2, "b"))
    assert repr(Point(1, 2)) == "Point(x=1, y=2)"
    assert str(inspect.signature(Point)) == "(x: int, y: int = 0, label: str = '') -> None"
    with pytest.raises(TypeError, match=r"^Point.__init__\(\) missing 1 required"):
        Point()  # type: ignore[call-arg]


def test_a_record_is_copied_and_taken_apart_like_a_dataclass() -> None:
    point = Point(1, 2, "a")
    assert dataclasses.is_dataclass(Point)
    assert dataclasses.asdict(point) == {"x": 1, "y": 2, "label": "a"}
    assert dataclasses.replace(point, x=5) == Point(5, 2)
    for same in (pickle.loads(pickle.dumps(point)), copy.copy(point), copy.deepcopy(point)):
        assert dataclasses.astuple(same) == (1, 2, "a")


def test_a_record_is_frozen() -> None:
    point = Point(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del point.x
    assert not hasattr(point, "__dict__")


def test_what_a_record_defines_itself_stays() -> None:
    assert repr(Checked(size=3)) == "<3>"
    assert Checked(size=3) == Checked(size=3)
    with pytest.raises(ValueError, match="too small"):
        Checked(size=0)
    with pytest.raises(TypeError):
        Checked(3)  # type: ignore[call-arg]


def test_threads_may_use_a_new_record_for_the_first_time_together() -> None:
    for _ in range(20):

        @record(frozen=True, slots=True)
        class Fresh:
            """Not used yet."""

            x: int

        start, found = threading.Barrier(4), []

        def use(fresh: type = Fresh, start: threading.Barrier = start) -> None:
            start.wait()
            found.append(fresh(1) == fresh(1) and hash(fresh(1)) == hash(fresh(1)))  # noqa: B023

        threads = [threading.Thread(target=use) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [True] * 4
