"""A call for somebody who works in the background, struck by a signal's exception on its way."""

import asyncio
from collections.abc import Callable

import pytest

from outlast import Settings
from outlast.store.records import FlushResult
from outlast.store.sqlite.background import Background
from outlast.store.sqlite.flush import Flusher
from outlast.store.sqlite.group import GroupCommit
from outlast.store.sqlite.operation import Operation
from tests.store.test_group_commit import PATIENCE_SECONDS, Disk


class Struck(Exception):
    """What the signal's handler raises."""


class StruckOnce:
    """Does what it is told later, but for the first time."""

    def __init__(self, later: Callable[[Callable[[], None]], None]) -> None:
        self._later = later
        self._was_struck = False

    def __call__(self, job: Callable[[], None]) -> None:
        if not self._was_struck:
            self._was_struck = True
            raise Struck
        self._later(job)


class Log:
    """A log that has grown enough."""

    wal_pages = 100
    commits = 1

    def who_reads(self) -> tuple[str, bool]:
        return "", False


def test_a_flush_that_was_called_for_in_vain_is_called_for_again() -> None:
    """Guards the log from growing for as long as the process lives."""
    flushed = list[str]()

    def flush_due(mode: str, least_frames: int) -> FlushResult:
        flushed.append(mode)
        return FlushResult(False, 100, 100)

    flusher = Flusher(flush_due, StruckOnce(lambda job: job()), Settings(flush_pages=100))
    with pytest.raises(Struck):
        flusher.look_at(Log())
    assert flushed == []
    flusher.look_at(Log())
    assert flushed == ["passive"]


@pytest.mark.parametrize("alone", [False, True])
def test_a_coroutine_after_a_call_in_vain_is_served(alone: bool) -> None:
    """Guards the coroutines of the next loop from waiting for a leader who never comes."""
    background, disk = Background(), Disk()
    disk.is_free = True
    later = StruckOnce(background.later)
    group = GroupCommit(disk.commit, lambda group: None, later, (100, PATIENCE_SECONDS))

    def operation(name: str) -> Operation[str]:
        return Operation(name, lambda tx: name, alone=alone)

    async def main() -> None:
        with pytest.raises(Struck):
            await group.submit(operation("first"))
        second = group.submit(operation("second"))
        assert await asyncio.wait_for(_of(second), PATIENCE_SECONDS) == "second"

    try:
        asyncio.run(main())
    finally:
        background.close()


async def _of(pending: object) -> str:
    return str(await pending)  # type: ignore[misc]
