"""A program's log: every record of the library, kept as it came."""

import logging
from collections.abc import Iterator

import pytest


class Kept(logging.Handler):
    """Keeps records, and their lines as JSON-less handlers would write them."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def starting(self, word: str) -> list[logging.LogRecord]:
        return [one for one in self.records if one.getMessage().startswith(f"{word} ")]


@pytest.fixture
def log() -> Iterator[Kept]:
    """Everything the library says, at every level."""
    kept, ours = Kept(), logging.getLogger("outlast")
    level = ours.level
    ours.addHandler(kept)
    ours.setLevel(logging.DEBUG)
    yield kept
    ours.removeHandler(kept)
    ours.setLevel(level)
