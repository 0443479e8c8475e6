"""Scraped over HTTP while four processes work and one is killed: right all along and at last."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from outlast import Outlast
from tests.cli.shell import command, environment
from tests.crash.workers.working import WorkerChild, until
from tests.metrics.reading import Scraped, assert_exposition_is_sound, scraped
from tests.support.foreign import foreign_rows

pytestmark = pytest.mark.slow

TASKS = 240
POISONED = 8
SETTINGS = {"detection_interval_seconds": 0.2, "heartbeat_interval_seconds": 0.2}


@contextmanager
def _served(folder: Path, database: Path) -> Iterator[str]:
    """The command that serves metrics, in a process of its own; its address."""
    server = subprocess.Popen(
        command("--store", database, "metrics", "serve", "--port", "0"),
        env=environment(folder), stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        yield server.stdout.readline().split()[-1]
        server.send_signal(signal.SIGINT)
        assert server.wait(60) == 0
    finally:
        server.kill()
        server.wait(60)
        if server.stdout is not None:
            server.stdout.close()


def _text(url: str) -> str:
    with urlopen(f"{url}/metrics", timeout=60) as answer:
        return str(answer.read().decode())


def _total(found: Scraped, wanted: str, **labels: str) -> int:
    return round(
        sum(
            value
            for (name, have), value in found.items()
            if name == wanted and labels.items() <= dict(have).items()
        )
    )


@pytest.mark.proves("OBS-10")
def test_metrics_of_four_processes_one_of_them_killed_agree_with_the_history(
    tmp_path: Path, database: Path
) -> None:
    with Outlast(database) as app:
        app.enqueue("held", id="h", priority=9)
        app.enqueue_many("quick", [{"seconds": 0.01}] * TASKS)
        app.enqueue_many("quick", [{"seconds": -1}] * POISONED, max_retries=1)
    with ExitStack() as stack:
        url = stack.enter_context(_served(tmp_path, database))

        def started(name: str) -> WorkerChild:
            options = {"concurrency": 2, "prefetch": 4}
            return stack.enter_context(WorkerChild(database, name, SETTINGS, **options))

        victim = started("a")
        victim.begun("h")
        workers = [started(name) for name in "bcd"]
        last = scraped(_text(url))
        scrapes = 0

        def completed() -> int:
            """Scrape, and see that nothing fell since the last time."""
            nonlocal last, scrapes
            found = scraped(_text(url))
            for (name, labels), value in last.items():
                if name.endswith(("_total", "_bucket", "_count", "_sum")):
                    assert found[name, labels] >= value, (name, labels)
            last, scrapes = found, scrapes + 1
            return _total(found, "outlast_tasks_finished_total", outcome="completed")

        until(lambda: completed() >= TASKS // 4, "they do not begin")
        victim.kill()
        victim.let_go("h")
        until(lambda: completed() > TASKS, "they do not finish")
        until(
            lambda: completed() and _total(last, "outlast_tasks_finished_total", outcome="failed")
            == POISONED, "they do not give up",
        )  # fmt: skip
        until(
            lambda: completed() and _total(last, "outlast_workers_dead_total") == 1,
            "nobody notices the dead one",
        )
        for worker in workers:
            worker.signal(signal.SIGTERM)
            worker.ended()
        text = _text(url)
    assert scrapes > 4
    assert_exposition_is_sound(text)
    _assert_agrees_with_the_history(scraped(text), database)


def _assert_agrees_with_the_history(found: Scraped, database: Path) -> None:
    """By a foreign tool, from the rows: every number that they can tell."""

    def rows(condition: str) -> int:
        query = f"SELECT count(*) FROM transitions WHERE {condition}"
        return int(foreign_rows(database, query)[0][0])

    for status in ("completed", "failed"):
        count = rows(f"to_status = '{status}'")
        assert _total(found, "outlast_tasks_finished_total", outcome=status) == count
        assert _total(found, "outlast_tasks", status=status) == count
    ran = rows("from_status = 'running' AND actor = 'worker' AND reason <> 'released'")
    assert _total(found, "outlast_attempt_duration_seconds_count") == ran
    assert _total(found, "outlast_attempts_failed_total") == 2 * POISONED
    assert _total(found, "outlast_wait_seconds_count") == TASKS + POISONED + 1
    lost = rows("from_status = 'running' AND actor = 'system/recovery' AND reason <> 'released'")
    assert lost > 0, "or it was killed for nothing"
    assert _total(found, "outlast_tasks_recovered_total") == lost
    assert _total(found, "outlast_leases_lost_total") == lost
    assert _total(found, "outlast_tasks", status="running") == 0
    runs = foreign_rows(database, "SELECT count(*) FROM events WHERE kind = 'recovery.completed'")
    assert [[_total(found, "outlast_recovery_duration_seconds_count")]] == runs
