"""Many coroutines, one file: each enqueue is durable when it returns, and few commits serve all.

    ./run python examples/async_first.py           in a folder of its own that is gone afterwards
    ./run python examples/async_first.py work.db   in a store you can look into; may be repeated

Two hundred visitors ask for a page at once and wait for their answers. Three workers in the same
loop answer them; they could as well be other processes. Half-way one of the workers is cancelled,
and whatever it holds goes back into the queue.
"""

import asyncio
import sys
import tempfile
from pathlib import Path
from uuid import uuid4

from outlast import AsyncLease, AsyncOutlast, Task

VISITORS = 200
WORKERS = ("w1", "w2", "w3")


async def main(store: str) -> int:
    queue = f"pages-{uuid4().hex[:8]}"
    async with AsyncOutlast(store) as app:
        workers = [asyncio.create_task(work(app, name, queue)) for name in WORKERS]
        visits = [asyncio.create_task(visit(app, number, queue)) for number in range(VISITORS)]

        await asyncio.gather(*visits[: VISITORS // 2])
        workers[0].cancel()
        print("w1 is cancelled; what it holds goes back")

        results = await asyncio.gather(*visits)
        for worker in workers:
            worker.cancel()
        await asyncio.wait(workers)

        counts = await app.counts(queue)
        print(f"{len(set(results))} answers, {counts['completed']} tasks completed")
    return 0 if counts["completed"] == len(set(results)) == VISITORS else 1


async def visit(app: AsyncOutlast, number: int, queue: str) -> str:
    """Ask for a page, and wait for it; woken by the commit that holds the answer."""
    task: Task = await app.enqueue("render", {"page": number}, queue=queue)
    result = await task.wait(timeout="1m")
    return str(result["text"])


async def work(app: AsyncOutlast, name: str, queue: str) -> None:
    """Claim a few, work on them side by side, and come again; until cancelled."""
    while True:
        leases = await app.claim(name, limit=5, queue=queue, wait="1m")
        try:
            await asyncio.gather(*(render(lease) for lease in leases))
        except asyncio.CancelledError:
            await asyncio.gather(*(lease.release() for lease in leases), return_exceptions=True)
            raise


async def render(lease: AsyncLease) -> None:
    await asyncio.sleep(0.01)
    await lease.complete({"text": f"page {lease.payload['page']}"})


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit(asyncio.run(main(str(Path(sys.argv[1]).absolute()))))
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(asyncio.run(main(f"{folder}/work.db")))
