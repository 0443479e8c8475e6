import asyncio
import subprocess
import sys
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from outlast.store.sqlite.side_folder.side_folder import SideFolder
from outlast.store.sqlite.wakeups.notify import Wakeups
from tests.store.sqlite.wakeups.waking import SOON_SECONDS, WORK


async def _begun(waiting: Coroutine[Any, Any, bool]) -> asyncio.Task[bool]:
    """The task of a wait that has gone to sleep."""
    task = asyncio.create_task(waiting)
    for _ in range(3):
        await asyncio.sleep(0)
    assert not task.done()
    return task


def test_a_hint_wakes_a_coroutine(wakeups: Wakeups) -> None:
    async def scene() -> None:
        with wakeups.listener(WORK) as waiter:
            task = await _begun(waiter.wait_async(SOON_SECONDS))
            thread = threading.Thread(target=wakeups.tell, args=(WORK,))
            thread.start()
            assert await task
            thread.join()
            assert not await waiter.wait_async(0)

    asyncio.run(scene())


def test_a_hint_that_came_before_the_wait_is_heard(wakeups: Wakeups) -> None:
    async def scene() -> None:
        with wakeups.listener(WORK) as waiter:
            wakeups.tell(WORK)
            assert await waiter.wait_async(SOON_SECONDS)

    asyncio.run(scene())


def test_a_cancelled_wait_loses_no_hint(wakeups: Wakeups) -> None:
    async def scene() -> None:
        with wakeups.listener(WORK) as waiter:
            task = await _begun(waiter.wait_async(SOON_SECONDS))
            wakeups.tell(WORK)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await waiter.wait_async(SOON_SECONDS)

    asyncio.run(scene())


def test_a_cancelled_wait_leaves_nothing_in_the_loop(wakeups: Wakeups) -> None:
    async def scene() -> None:
        with wakeups.listener(WORK) as waiter:
            assert waiter._bound is not None
            number = waiter._bound.socket.fileno()
            task = await _begun(waiter.wait_async(SOON_SECONDS))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not asyncio.get_running_loop().remove_reader(number)

    asyncio.run(scene())


@pytest.mark.parametrize("can_bind", [True, False], ids=["socket", "only sleeping"])
def test_closing_ends_the_wait_of_a_coroutine(folder: SideFolder, can_bind: bool) -> None:
    if not can_bind:
        folder.wake.rmdir()

    async def scene() -> None:
        wakeups = Wakeups(folder)
        task = await _begun(wakeups.listener(WORK).wait_async(SOON_SECONDS * 10))
        thread = threading.Thread(target=wakeups.close)
        thread.start()
        assert await asyncio.wait_for(task, SOON_SECONDS) is False
        thread.join()

    asyncio.run(scene())


@pytest.mark.parametrize("can_bind", [True, False], ids=["socket", "only sleeping"])
def test_a_closed_waiter_does_not_keep_a_coroutine_waiting(
    wakeups: Wakeups, folder: SideFolder, can_bind: bool
) -> None:
    if not can_bind:
        folder.wake.rmdir()

    async def scene() -> None:
        waiter = wakeups.listener(WORK)
        waiter.close()
        assert await asyncio.wait_for(waiter.wait_async(SOON_SECONDS * 10), SOON_SECONDS) is False

    asyncio.run(scene())


def test_a_wait_without_hints_ends_in_time(wakeups: Wakeups) -> None:
    async def scene() -> None:
        with wakeups.listener(WORK) as waiter:
            assert not await waiter.wait_async(0.01)

    asyncio.run(scene())


def test_waiting_without_coroutines_does_not_import_asyncio() -> None:
    program = "import sys, outlast.store.sqlite.wakeups.notify; sys.exit('asyncio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 0
