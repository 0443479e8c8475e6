"""litequeue: its one queue object, popped and marked as done by one loop."""

import time
from pathlib import Path
from typing import Any

from litequeue import LiteQueue

from bench.load import PAYLOAD_TEXT
from bench.peers.child import rate_of, require_count, write_back

# It sets synchronous=NORMAL itself, which a power cut may cost acknowledged messages, so FULL is
# set after it. One loop, because it has no worker and pops one message at a time, each in its own
# transaction, as is each `done`. Nothing takes back the message of a consumer that died.
FILE = "litequeue.db"
# Version 0.9 (the newest for Python 3.11) sorts all that is ready at each pop; 0.14 makes such an
# index itself. It is there for the consumer only, as it would slow 0.9's inserts.
INDEX = "CREATE INDEX IF NOT EXISTS ready ON Queue (status, message_id)"
DONE = "SELECT count(*) FROM Queue WHERE status = 2"
READY = "SELECT count(*) FROM Queue WHERE status = 0"


def open_queue(folder: Path, synchronous: str = "FULL") -> Any:
    queue = LiteQueue(str(folder / FILE))
    queue.conn.execute(f"PRAGMA synchronous = {synchronous}")
    return queue


def enqueue_singly(folder: Path, count: int) -> float:
    queue = open_queue(folder)
    rate = rate_of(count, lambda: queue.put(PAYLOAD_TEXT))
    queue.close()
    require_count(folder / FILE, READY, count + 1)
    return rate


def consume(folder: Path, count: int) -> float:
    filling = open_queue(folder, synchronous="OFF")
    for _ in range(count):
        filling.put(PAYLOAD_TEXT)
    filling.conn.execute(INDEX)
    filling.close()
    write_back()
    queue = open_queue(folder)
    began = time.perf_counter()
    while (message := queue.pop()) is not None:
        if hasattr(message, "claim_id"):  # newer than 0.9
            queue.done(message.message_id, claim_id=message.claim_id)
        else:
            queue.done(message.message_id)
    ended = time.perf_counter()
    queue.close()
    require_count(folder / FILE, DONE, count)
    return count / (ended - began)
