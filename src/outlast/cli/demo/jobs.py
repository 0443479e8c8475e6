"""The program that `outlast demo` runs: its tasks, as a program of yours would write them.

It is loaded by `outlast worker run` in a folder of its own, where its store is.
"""

import hashlib
import os
from pathlib import Path
from typing import Any

from outlast import Context, Outlast

STORE = "work.db"
JOURNAL = "begun.log"
ROUNDS = 20_000

app = Outlast(STORE)


@app.task
def fingerprint(ctx: Context, path: str) -> dict[str, Any]:
    """Count the words of a text and take a fingerprint that costs some milliseconds."""
    _note(ctx.task_id)
    text = Path(path).read_bytes()
    digest = hashlib.pbkdf2_hmac("sha256", text, b"outlast", ROUNDS)
    return {"words": words(text), "fingerprint": digest.hex()}


def words(text: bytes) -> int:
    """How many words a text has."""
    return len(text.split())


def _note(task_id: str) -> None:
    """Say outside of the store that work begins here, so that nobody has to take its word."""
    journal = os.open(JOURNAL, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(journal, f"{os.getpid()} {task_id}\n".encode())
    finally:
        os.close(journal)
