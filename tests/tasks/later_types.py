"""Task functions whose annotations are texts, and name types that are defined after them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from outlast import InvalidInput, Outlast

if TYPE_CHECKING:
    from decimal import Decimal

    from outlast.tasks.context import Context

app = Outlast("never-opened.db")


@app.task
def travel(ctx: Context, trip: Trip, seats: int = 1) -> Decimal:
    raise NotImplementedError


@app.task
def pay(amount: Decimal) -> None: ...


def refusal(destination: str) -> str:
    """What an enqueue is told while the types are not there yet."""
    try:
        travel.payload_of(({"stops": []},), {})
    except InvalidInput as error:
        return str(error)
    return destination


TOO_EARLY = refusal("accepted")


@dataclass
class Trip:
    """Names a type that does not exist yet either."""

    stops: list[Stop]


STILL_TOO_EARLY = refusal("accepted")


@dataclass
class Stop:
    """The last missing piece."""

    city: str
