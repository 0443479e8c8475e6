"""Coroutines of an AsyncOutlast that put work in and take it out; one of the programs of chaos."""

import asyncio
import random
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

from outlast.app.aio import AsyncOutlast
from outlast_lab.chaos.crowd import KINDS, QUEUES, payload_by, result_of
from outlast_lab.witness import Witness

if TYPE_CHECKING:
    from outlast.app.aio.lease import AsyncLease

LEASE_SECONDS = 3


class Coroutine:
    """One coroutine's dealings with the store, by its own dice."""

    def __init__(self, aio: AsyncOutlast, witness: Witness, dice: random.Random) -> None:
        self._aio = aio
        self._witness = witness
        self._dice = dice
        self._numbers = count()

    async def act_until(self, stop: Callable[[], bool]) -> None:
        """Again and again; others of the loop get their turn."""
        while not stop():
            await (self._produce() if self._dice.random() < 0.4 else self._consume())
            await asyncio.sleep(0)

    async def _produce(self) -> None:
        dice, witness = self._dice, self._witness
        task_id, payload = f"{witness.worker}:{next(self._numbers)}", payload_by(dice)
        arguments = {"ids": [task_id], "payloads": [payload]}
        enqueue = self._aio.enqueue(dice.choice(KINDS), payload, id=task_id)
        await witness.acall("enqueue", arguments, enqueue, lambda task: [task.id])

    async def _consume(self) -> None:
        witness = self._witness
        options: dict[str, Any] = {"limit": 2, "queue": QUEUES, "lease": LEASE_SECONDS}
        claim = self._aio.claim(witness.worker, **options)
        leases = await witness.acall("claim", options, claim, _handed_out)
        for lease in leases or []:
            await self._end(lease)

    async def _end(self, lease: "AsyncLease") -> None:
        held: dict[str, Any] = {"ids": [lease.task_id], "token": lease.token}
        if self._dice.random() < 0.85:
            held["result"] = result_of(self._witness.worker, lease.token)
            verb, ending = "complete", lease.complete(held["result"])
        else:
            verb, ending = "release", lease.release()
        await self._witness.acall(verb, held, ending, lambda value: value is not False)


def _handed_out(leases: "list[AsyncLease]") -> list[Any]:
    return [[one.task_id, one.token, one.attempt, one.lease.lease_ms] for one in leases]
