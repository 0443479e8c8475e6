"""The golden answers of this folder: what every command prints, for people and for machines.

Those that run a worker live on real time and are in test_up.py.

A change of any shows up in review as a change of these files. To bring them up to date:

    ./run python -m tests.cli.golden --write
"""

import os
import re
import socket
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from click.testing import CliRunner

from outlast import Outlast, Settings
from outlast.cli.main import cli
from outlast.clock import Instant, SystemClock
from outlast.testing import ManualClock

FOLDER = Path(__file__).with_name("golden")
TO_UPDATE = "if this is meant: ./run python -m tests.cli.golden --write"

CASES = {
    "worker_list": "worker list",
    "worker_list_beats": "worker list --show-heartbeat --all",
    "enqueue": "enqueue greet --arg name=Ada --id t9 --queue slow --priority 3",
    "task_list": "task list",
    "task_list_some": "task list --status pending --kind greet --limit 1",
    "task_list_none": "task list --queue nobody",
    "task_show_completed": "task show t1",
    "task_show_payload": "task show t1 --payload",
    "task_show_failed": "task show t2",
    "task_show_running": "task show t4",
    "task_why": "task why t3",
    "task_retry": "task retry t2 t4 nobody",
    "task_retry_bulk": "task retry --status failed --queue default --yes",
    "task_cancel": "task cancel t3 t5 t1",
    "task_cancel_bulk": "task cancel --status pending --kind greet --yes",
    "task_force": "task force pending t4 t1 nobody --by ada --reason stuck",
    "task_force_bulk": "task force fail --status pending --kind greet --yes --by ada",
    "queue_approve": "queue approve --all --by ada",
    "queue_audit": "queue audit",
    "queue_audit_items": "queue audit --items",
    "worker_mark_dead": "worker mark-dead w1 --force --by ada",
    "queue_stats": "queue stats",
    "queue_stats_of_one": "queue stats --queue slow",
    "queue_pause": "queue pause default",
    "queue_pause_again": "queue pause slow",
    "queue_resume": "queue resume slow",
    "queue_recover": "queue recover",
    "queue_recover_plan": "queue recover --plan",
    "queue_heal": "queue heal",
    "queue_heal_dry": "queue heal --dry-run",
    "queue_reclaim": "queue reclaim --older-than 30s",
    "queue_reclaim_force": "queue reclaim --older-than 120 --force",
    "queue_recovery_status": "queue recovery-status",
    "queue_recovery_report": "queue recovery-report",
    "checkpoint_list": "checkpoint list t1",
    "checkpoint_show": "checkpoint show t1 1",
    "checkpoint_show_data": "checkpoint show t1 1 --data",
    "lock_list": "lock list",
    "lock_check": "lock check render",
    "lock_check_free": "lock check",
    "lock_release": "lock release render --by ada",
    "lock_release_free": "lock release nobody --by ada",
    "queue_events": "queue events --last 12",
    "queue_events_of_one": "queue events --task t2",
    "queue_metrics": "queue metrics",
    "store_migrate": "store migrate",
    "health": "health",
    "lab": "lab",
    "completion": "completion fish",
}

ERROR = "ValueError: page 3 is blank\n  in ingest (jobs.py:12)\n  in read (pages.py:40)"


def furnish(folder: Path, clock: ManualClock) -> Outlast:
    """A store with a task in every state, all at the clock's time; it is left open."""
    app = Outlast(folder / "work.db", settings=Settings(), clock=clock)
    app.enqueue("greet", {"name": "Ada"}, id="t1", group="nightly")
    clock.advance("2s")
    (lease,) = app.claim("w1")
    clock.advance("1s")
    lease.checkpoint("iteration_end", {"page": 1})
    clock.advance("250ms")
    lease.complete({"said": "hello Ada"})
    app.enqueue("ingest", {"path": "a.pdf"}, id="t2", max_retries=0, group="nightly")
    (lease,) = app.claim("w1")
    clock.advance("90s")
    lease.fail(ERROR)
    app.enqueue("greet", id="t3", delay="10m")
    app.enqueue("ingest", {"path": "b.pdf"}, id="t4", queue="gpu", priority=5)
    app.claim("w1", queue="gpu", lease="1h")
    app.enqueue("greet", id="t5")
    app.cancel("t5")
    app.enqueue("greet", {"name": "Bob"}, id="t6", queue="slow")
    app.pause("slow")
    app.lock("render", holder="w1").acquire()
    clock.advance("1m")
    return app


class Answer(NamedTuple):
    """What a command said about such a store."""

    out: str
    err: str
    code: int


def call(words: str) -> tuple[Answer, Path]:
    """The answer as it is, and the folder that was the current one."""
    clock = ManualClock()

    def now(self: SystemClock) -> Instant:
        return clock.now()

    before = os.getcwd()
    with (
        tempfile.TemporaryDirectory() as name,
        patch.object(SystemClock, "now", now),
        patch.object(socket, "gethostname", lambda: "box"),
    ):
        folder = Path(name).resolve()
        app = furnish(folder, clock)
        os.chdir(folder)
        try:
            result = CliRunner(env={"OUTLAST_STORE": "work.db"}).invoke(cli, words.split())
        finally:
            os.chdir(before)
            app.close()
    return Answer(result.stdout, result.stderr, result.exit_code), folder


def answer(words: str) -> str:
    """The answer as a golden file holds it; stderr is marked, and what differs is made alike."""
    (out, err, code), folder = call(words)
    # The library's own lines go where logging was sent, which a test runner changes.
    said = [line for line in err.splitlines() if not line.startswith("outlast: warning: ")]
    marked = "".join(f"! {line}\n" for line in said)
    return f"$ outlast {words}\n{_alike(out + marked, folder)}exit {code}\n"


def _alike(text: str, folder: Path) -> str:
    text = text.replace(str(folder), "FOLDER")
    text = re.sub(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "NEW-ID", text)
    text = re.sub(r'"incarnation": "[0-9a-f]+"', '"incarnation": "INCARNATION"', text)
    text = re.sub(r"\d+\.\d KiB of", "SIZE of", text)
    text = re.sub(r"[\d.]+ [KMGT]iB are free", "SIZE are free", text)
    text = re.sub(r'("(?:duration_)?seconds": )[0-9.e-]+', r"\1SECONDS", text)
    text = re.sub(r"\b\d+\.\d{3}$", "S.SSS", text, flags=re.MULTILINE)
    text = re.sub(r'\b\d+( frames moved)|("wal_frames_moved": )\d+', r"\2FRAMES\1", text)
    text = re.sub(r"(Checkpointed: )\d+", r"\1FRAMES", text)
    text = re.sub(r'("version": |is version |version )\d+', r"\1VERSION", text)
    text = re.sub(r"^(outlast_(?:wal|database)_bytes) .*", r"\1 BYTES", text, flags=re.MULTILINE)
    sizes = r'("outlast_(?:wal|database)_bytes": \{[^]]*"value": )\d+'
    text = re.sub(sizes, r"\1BYTES", text)
    pid = str(os.getpid())
    if re.search(rf"\b{pid}\b", text):
        # Columns are as wide as the pid that stands in them.
        text = re.sub(rf"\b{pid}\b", "4711", re.sub(r"(?<=\S) +", " ", text))
    return text


def main(arguments: list[str]) -> int:
    if arguments != ["--write"]:
        print("usage: python -m tests.cli.golden --write", file=sys.stderr)
        return 2
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.iterdir():
        old.unlink()
    for name, words in CASES.items():
        (FOLDER / f"{name}.txt").write_text(answer(words), encoding="utf-8")
        (FOLDER / f"{name}_json.txt").write_text(answer(f"{words} --json"), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
