"""The end of a round: what the crowd left unfinished is finished; every task comes to its end."""

import time

from outlast_lab.chaos.crowd import QUEUES, result_of
from outlast_lab.witness import Witness

PATIENCE_SECONDS = 60


def finish(witness: Witness) -> None:
    """Complete whatever is left; raises when something cannot be finished in time."""
    app = witness.app
    witness.open()
    for queue in QUEUES:
        witness.unpause(queue)
    ends_at = time.monotonic() + PATIENCE_SECONDS
    while left := app.counts()["pending"] + app.counts()["running"]:
        for task in app.tasks("pending"):
            if task.parked is not None:
                witness.unpark_task(task.id)
        leases = witness.claim(limit=500, queue=QUEUES, wait=1)
        if leases:
            witness.complete_many(
                [(lease, result_of(witness.worker, lease.token)) for lease in leases]
            )
        if time.monotonic() > ends_at:
            raise TimeoutError(f"{left} tasks cannot be finished: {app.counts()}")
