"""What nobody should pass, passed: one sentence that says what is wrong, and nothing is written."""

from collections.abc import Callable
from typing import Any

import pytest

from outlast import InvalidInput, Outlast


def deep() -> list[Any]:
    nested: list[Any] = []
    for _ in range(5000):
        nested = [nested]
    return nested


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


ODD: dict[str, Callable[[Any], object]] = {
    "force=None": lambda app: app.reclaim_stale(100, force=None),
    "force=nan": lambda app: app.reclaim_stale(100, force=float("nan")),
    "force=x": lambda app: app.reclaim_stale(100, force="x"),
    "force=2**63": lambda app: app.reclaim_stale(100, force=2**63),
    "dead by force=1": lambda app: app.mark_dead("x", force=1),
    "kinds=True": lambda app: app.claim("w", kinds=True),
    "queue=[[]]": lambda app: app.claim("w", queue=[[]]),
    "worker(queues=5)": lambda app: app.worker(queues=5),
    "worker(kinds=5)": lambda app: app.worker(kinds=5),
    "status=bytearray()": lambda app: app.tasks(status=bytearray()),
    "clock=5": lambda app: Outlast(app.path, clock=5),  # type: ignore[arg-type]
    "full-width digits": lambda app: app.enqueue("k", delay="\uff15s"),
    "a deep kind": lambda app: app.enqueue(deep()),
    "a deep queue": lambda app: app.enqueue("k", queue=deep()),
    "a deep priority": lambda app: app.enqueue("k", priority=deep()),
    "a deep delay": lambda app: app.enqueue("k", delay=deep()),
    "what cannot be shown": lambda app: app.enqueue("k", queue=Unshowable()),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_input_is_refused_in_one_sentence(app: Outlast, name: str) -> None:
    app.open()
    with pytest.raises(InvalidInput) as caught:
        ODD[name](app)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300
    assert sum(app.counts().values()) == 0
