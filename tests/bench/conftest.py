import logging
import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _no_waiting_for_everybodys_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness lets all writes settle before each block; other tests' writes need not."""
    monkeypatch.setattr(os, "sync", lambda: None)


@pytest.fixture(autouse=True)
def _the_log_as_it_was() -> Iterator[None]:
    """`./run bench` quietens the library; tests that come later read what it says."""
    log = logging.getLogger("outlast")
    level = log.level
    yield
    log.setLevel(level)
