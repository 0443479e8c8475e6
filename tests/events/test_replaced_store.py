"""The file is replaced under those who follow it: they say so, and do not wait for ever."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast import Outlast, StoreReplaced
from tests.events.conftest import DEADLINE_SECONDS, Listener, wait_until


def _replace(database: Path) -> None:
    other = database.with_suffix(".other")
    with Outlast(other) as app:
        app.enqueue("work")
    os.replace(other, database)


def test_one_that_follows_a_file_that_is_replaced_is_told_so(
    make_app: Callable[..., Outlast], database: Path
) -> None:
    app = make_app()
    app.enqueue("work")
    app.close()
    following = make_app().follow("0.0")
    for _ in range(3):
        next(following)
    raised: list[BaseException] = []

    def wait_for_more() -> None:
        try:
            next(following)
        except BaseException as error:
            raised.append(error)

    waiting = threading.Thread(target=wait_for_more, daemon=True)
    waiting.start()
    _replace(database)
    waiting.join(DEADLINE_SECONDS)
    assert [type(error) for error in raised] == [StoreReplaced]


@pytest.mark.parametrize("name", [None, "audit"])
def test_a_subscription_ends_with_the_file_it_is_about(
    make_app: Callable[..., Outlast], database: Path, name: str | None
) -> None:
    app = make_app()
    app.enqueue("work")
    subscription = app.subscribe(Listener(), name)
    assert subscription.catch_up(DEADLINE_SECONDS)
    os.rename(database, database.with_suffix(".elsewhere"))
    wait_until(lambda: subscription.is_over)
