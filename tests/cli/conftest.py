"""The command line within the test's own process, on the test's store and the test's clock."""

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest
from click.testing import CliRunner

from outlast.cli.main import cli
from outlast.clock import Instant, SystemClock
from outlast.testing import ManualClock


class Said(NamedTuple):
    """What a call printed, and the code it ended with."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """The JSON document, which must be all there is on stdout."""
        return json.loads(self.out)


class Call(Protocol):
    """Runs one call of the command."""

    def __call__(self, *words: str, input: str | None = None) -> Said:
        """What came of it."""
        ...


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """An empty folder, none of our variables, and the log as it was before."""
    for name in [name for name in os.environ if name.startswith("OUTLAST_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    log = logging.getLogger("outlast")
    handlers, level = list(log.handlers), log.level
    yield
    log.handlers[:] = handlers
    log.setLevel(level)


@pytest.fixture
def bare() -> Call:
    """The command without a word about a store."""

    def call(*words: str, input: str | None = None) -> Said:
        result = CliRunner().invoke(cli, list(words), input=input)
        return Said(result.exit_code, result.stdout, result.stderr)

    return call


@pytest.fixture
def outlast(
    bare: Call, database: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> Call:
    """The command on the test's store, at the time of the test's clock."""

    def now(self: SystemClock) -> Instant:
        return clock.now()

    monkeypatch.setattr(SystemClock, "now", now)
    monkeypatch.setenv("OUTLAST_STORE", str(database))
    return bare
