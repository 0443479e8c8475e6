"""persist-queue: SQLiteAckQueue, taken from and acknowledged by one loop."""

import time
from pathlib import Path
from typing import Any

import persistqueue
from persistqueue.serializers import json

from bench.load import PAYLOAD
from bench.peers.child import rate_of, require_count, require_synced

# JSON is its quicker serializer, and `next_in_order` spares it walking over all that was taken
# before; one thread and one connection, because it locks around every call. Taking and
# acknowledging are a commit each. It knows one process: whoever opens the file anew is given what
# others still have in hand, and there are no leases, retries or workers.
FILE = "data.db"
READY = "SELECT count(*) FROM ack_queue_default WHERE status < 2"
ACKNOWLEDGED = "SELECT count(*) FROM ack_queue_default WHERE status = 5"


def open_queue(folder: Path) -> Any:
    queue = persistqueue.SQLiteAckQueue(str(folder), serializer=json, db_file_name=FILE)
    # It sets WAL and leaves `synchronous` to the library's default.
    require_synced(folder / FILE)
    return queue


def enqueue_singly(folder: Path, count: int) -> float:
    queue = open_queue(folder)
    rate = rate_of(count, lambda: queue.put(PAYLOAD))
    queue.close()
    require_count(folder / FILE, READY, count + 1)
    return rate


def consume(folder: Path, count: int) -> float:
    queue = open_queue(folder)
    for _ in range(count):
        queue.put(PAYLOAD)
    began = time.perf_counter()
    item = queue.get(block=False, raw=True)
    queue.ack(id=item["pqid"])
    for _ in range(count - 1):
        item = queue.get(block=False, id=item["pqid"], next_in_order=True, raw=True)
        queue.ack(id=item["pqid"])
    ended = time.perf_counter()
    queue.close()
    require_count(folder / FILE, ACKNOWLEDGED, count)
    return count / (ended - began)
