"""Models of pydantic as arguments; Outlast itself does not know pydantic."""

import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pydantic
import pytest

from outlast import InvalidInput, Outlast


class Address(pydantic.BaseModel):
    street: str
    zip_code: int = pydantic.Field(alias="zip")


class Order(pydantic.BaseModel):
    """Strict: a text is no date, unless it comes from JSON."""

    model_config = pydantic.ConfigDict(strict=True)
    at: datetime
    to: Address
    notes: set[str] = set()


class Forgetful(pydantic.BaseModel):
    kept: int
    dropped: int = pydantic.Field(default=0, exclude=True)


class LikeAModel:
    """Behaves like a model and is none."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LikeAModel) and other.n == self.n

    def __hash__(self) -> int:
        return self.n

    @classmethod
    def model_validate(cls, value: Any) -> "LikeAModel":
        return cls(value["n"])

    def model_dump(self, **options: Any) -> dict[str, int]:
        return {"n": self.n}


ORDER = Order(at=datetime(2030, 1, 1, tzinfo=UTC), to=Address(street="A", zip=1), notes={"quick"})
STORED = {"at": "2030-01-01T00:00:00Z", "to": {"street": "A", "zip": 1}, "notes": ["quick"]}


def test_a_model_comes_back_as_it_was_passed(app: Outlast) -> None:
    @app.task
    def ship(order: Order, others: list[Order] | None = None) -> None: ...

    payload = ship.enqueue(ORDER, [ORDER]).payload
    assert payload == {"order": STORED, "others": [STORED]}
    assert ship.arguments_from(payload) == {"order": ORDER, "others": [ORDER]}
    assert app.enqueue("ship", {"order": STORED}).payload == {"order": STORED}


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"at": "2030-01-01T00:00:00Z"}, "to: Field required"),
        ({"at": 5, "to": STORED["to"]}, "at: Input should be a valid datetime"),
        ({**STORED, "to": {"street": 1, "zip": "secret"}}, "to: street: .*; to: zip: "),
        (5, "input should be an object"),
    ],
)
def test_what_a_model_refuses_is_refused_in_one_sentence_without_values(
    app: Outlast, wrong: Any, sentence: str
) -> None:
    @app.task
    def ship(order: Order) -> None: ...

    with pytest.raises(
        InvalidInput, match=rf"^argument order of ship\(\) must be .*Order: {sentence}"
    ) as refused:
        ship.enqueue(wrong)
    assert "\n" not in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_model_that_leaves_out_what_it_was_given_is_refused(app: Outlast) -> None:
    @app.task
    def keep(what: Forgetful) -> None: ...

    assert keep.enqueue(Forgetful(kept=1)).payload == {"what": {"kept": 1}}
    with pytest.raises(InvalidInput, match="the Forgetful given would not come back"):
        keep.enqueue(Forgetful(kept=1, dropped=2))


def test_what_behaves_like_a_model_is_one(app: Outlast) -> None:
    @app.task
    def count(what: LikeAModel) -> None: ...

    payload = count.enqueue(LikeAModel(3)).payload
    assert payload == {"what": {"n": 3}}
    assert count.arguments_from(payload) == {"what": LikeAModel(3)}


def test_pydantic_is_not_imported_by_outlast(app: Outlast) -> None:
    program = (
        "import sys, outlast, outlast.testing; app = outlast.Outlast(sys.argv[1])\n"
        "@app.task\n"
        "def f(a: int) -> None: ...\n"
        "f.enqueue(1)\n"
        "assert not {'pydantic', 'asyncio'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(app.path)], check=True, timeout=60)
