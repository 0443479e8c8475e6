"""A call for somebody who works in the background, struck by a signal's exception on its way."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from outlast import Settings
from outlast.store.records import FlushResult
from outlast.store.sqlite.background import Background
from outlast.store.sqlite.group import GroupCommit
from outlast.store.sqlite.operation import Operation
from outlast.store.sqlite.pending import Group
from outlast.store.sqlite.wal import Flusher
from tests.store.test_group_commit import PATIENCE_SECONDS, Disk


class Struck(Exception):
    """What the signal's handler raises."""


class StruckOnce:
    """Does what it is told later; the first time a signal strikes before that, or after it."""

    def __init__(self, later: Callable[[Callable[[], None]], None], *, after: bool = False) -> None:
        self._later = later
        self._after = after
        self._was_struck = False

    def __call__(self, job: Callable[[], None]) -> None:
        was_struck, self._was_struck = self._was_struck, True
        if was_struck or self._after:
            self._later(job)
        if not was_struck:
            raise Struck


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


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("alone", [False, True])
def test_a_coroutine_after_a_call_in_vain_is_served(alone: bool, after: bool) -> None:
    """Guards the coroutines of the next loop from waiting for a leader who never comes."""
    background, disk = Background(), Disk()
    disk.is_free = True
    later = StruckOnce(background.later, after=after)
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


@pytest.mark.parametrize("alone", [False, True])
def test_what_a_signal_struck_before_it_was_begun_is_taken_back(alone: bool) -> None:
    """Guards a caller that was told of an error from having its task stored all the same."""
    background, disk = Background(), Disk()
    disk.is_free = True
    later = StruckOnce(background.later)
    group = GroupCommit(disk.commit, lambda group: None, later, (100, PATIENCE_SECONDS))

    async def main() -> None:
        with pytest.raises(Struck):
            await group.submit(Operation("struck", lambda tx: "struck", alone=alone))
        await _of(group.submit(Operation("next", lambda tx: "next", alone=alone)))

    try:
        asyncio.run(main())
    finally:
        background.close()
    assert disk.groups == [["next"]]


def test_of_two_ushers_none_ends_what_the_other_leads() -> None:
    """Guards a group from being taken from its leader in mid-commit, and run once more by another.

    There are two when a signal strikes right after the first was called.
    """
    background, disk = Background(), Disk()
    telling, told = threading.Event(), threading.Event()
    first_is_gone = threading.Event()

    def committed(group: Group) -> None:
        if not telling.is_set():
            telling.set()
            assert told.wait(PATIENCE_SECONDS)

    def later(job: Callable[[], None]) -> None:
        is_first = not telling.is_set()

        def noted() -> None:
            job()
            if is_first:
                first_is_gone.set()

        background.later(noted)
        if is_first:
            disk.let_through()
            assert telling.wait(PATIENCE_SECONDS)
            raise Struck

    group = GroupCommit(disk.commit, committed, later, (100, PATIENCE_SECONDS))

    async def main() -> None:
        with pytest.raises(Struck):
            await group.submit(Operation("first", lambda tx: "first"))
        disk.await_group()
        second = asyncio.ensure_future(_of(group.submit(Operation("second", lambda tx: "second"))))
        await asyncio.to_thread(disk.await_group)
        told.set()
        await asyncio.to_thread(first_is_gone.wait, 1)
        disk.free()
        assert await asyncio.wait_for(second, PATIENCE_SECONDS) == "second"

    try:
        asyncio.run(main())
    finally:
        disk.free()
        background.close()
    assert disk.groups == [["first"], ["second"]]


async def _of(pending: object) -> str:
    return str(await pending)  # type: ignore[misc]
