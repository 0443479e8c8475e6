"""What the tests of flushes share."""

import os
from collections.abc import Callable
from typing import Any

from outlast import Outlast
from outlast.store.sqlite.wal import PAGE_BYTES
from tests.store.hand import engine_of

MakeApp = Callable[..., Outlast]

NEVER = 1_000_000
FRAME_BYTES = PAGE_BYTES + 24


def log_bytes(app: Outlast) -> int:
    return os.stat(f"{app.path}-wal").st_size


def writer_of(app: Outlast) -> Any:
    return engine_of(app)._database.writer
