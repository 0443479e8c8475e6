"""The text that Prometheus scrapes, and who may scrape it."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from outlast import AsyncOutlast, InvalidInput, Outlast
from outlast.contrib.prometheus.serving import is_loopback
from outlast.metrics import OutlastCollector, exposition, serve
from tests.cli.shell import piped
from tests.metrics.reading import assert_exposition_is_sound, scraped
from tests.store.hand import Hand

HOSTILE = ('a"b', "back\\slash", '{x="1"} 7', "# HELP no", "naïve ☂", "%s", "'")


@pytest.mark.proves("OBS-10")
def test_names_that_look_like_syntax_come_out_as_the_labels_they_are(app: Outlast) -> None:
    for name in HOSTILE:
        app.enqueue(name, queue=name)
        app.claim("w", queue=name)[0].complete()
    text = exposition(app)
    assert_exposition_is_sound(text)
    finished = {
        dict(labels)["queue"]: value
        for (name, labels), value in scraped(text).items()
        if name == "outlast_tasks_finished_total" and dict(labels)["queue"] == dict(labels)["kind"]
    }
    assert finished == dict.fromkeys(HOSTILE, 1)


def test_a_name_with_a_line_end_forges_no_line(app: Outlast) -> None:
    """No call lets one in; somebody with a SQL prompt may."""
    app.enqueue("mail")
    with closing(Hand(app.path)) as hand:
        hand.run("UPDATE tasks SET queue = 'x' || char(10) || 'outlast_store_ok 0'")
    text = exposition(app)
    assert_exposition_is_sound(text)
    assert scraped(text)["outlast_store_ok", ()] == 1


def test_an_empty_store_has_a_sound_text_too(app: Outlast) -> None:
    app.open()
    assert_exposition_is_sound(exposition(app))


def test_the_text_and_the_dict_say_the_same(app: Outlast) -> None:
    app.enqueue_many("mail", range(3))
    app.claim("w")[0].complete()
    found, read = app.metrics(), scraped(exposition(app))
    for name, about in found.items():
        for sample in about["samples"]:
            labels = tuple(sorted(sample["labels"].items()))
            if about["type"] == "histogram":
                assert read[f"{name}_count", labels] == sample["count"]
                assert read[f"{name}_sum", labels] == sample["sum"]
                for bound, count in sample["buckets"].items():
                    key = tuple(sorted({**sample["labels"], "le": bound}.items()))
                    assert read[f"{name}_bucket", key] == count
            elif name != "outlast_wal_bytes":
                assert read[name, labels] == sample["value"]


def test_a_store_that_cannot_be_read_is_told_in_one_metric(database: Path) -> None:
    registry = CollectorRegistry()
    registry.register(OutlastCollector(Outlast(database)))
    assert not database.exists(), "registering opens nothing, and scraping makes nothing"
    assert scraped(generate_latest(registry).decode()) == {("outlast_store_ok", ()): 0}
    assert not database.exists()


async def _asked(database: Path) -> dict[str, Any]:
    async with AsyncOutlast(database) as app:
        await app.enqueue("mail")
        return await app.metrics()


def test_a_coroutine_asks_for_the_same(database: Path) -> None:
    import asyncio

    found = asyncio.run(_asked(database))
    assert found["outlast_tasks_enqueued_total"]["samples"] == [{"labels": {}, "value": 1}]


@contextmanager
def _serving(app: Outlast, **options: Any) -> Iterator[int]:
    server, thread = serve(app, port=0, **options)
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join(60)


def test_it_is_served_on_loopback_and_follows_the_store(app: Outlast) -> None:
    app.open()
    with _serving(app) as port:
        for count in (1, 2):
            app.enqueue("mail")
            with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
                assert answer.headers["Content-Type"].startswith("text/plain; version=")
                read = scraped(answer.read().decode())
            assert read["outlast_tasks_enqueued_total", ()] == count


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", ""])
def test_other_hosts_are_refused_unless_they_are_allowed(app: Outlast, host: str) -> None:
    with pytest.raises(InvalidInput, match="allow_remote"):
        serve(app, host, 0)


def test_remote_readers_may_be_allowed(app: Outlast) -> None:
    app.open()
    with _serving(app, host="0.0.0.0", allow_remote=True) as port:
        assert port > 0


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_is_known_by_its_addresses(host: str) -> None:
    assert is_loopback(host)


def test_a_port_that_is_taken_is_told_in_one_sentence(app: Outlast) -> None:
    app.open()
    with _serving(app) as port, pytest.raises(InvalidInput, match="choose another port"):
        serve(app, port=port)


def test_the_command_prints_text_or_one_document(
    tmp_path: Path, make_app: Callable[..., Outlast]
) -> None:
    app = make_app()
    app.enqueue("mail")
    app.close()
    text = piped(tmp_path, "--store", app.path, "queue", "metrics")
    assert (text.returncode, text.stderr) == (0, "")
    assert_exposition_is_sound(text.stdout)
    document = piped(tmp_path, "--store", app.path, "queue", "metrics", "--json")
    assert '"outlast_tasks_enqueued_total": {' in document.stdout
    missing = piped(tmp_path, "--store", tmp_path / "none.db", "queue", "metrics")
    assert missing.returncode == 3
    remote = piped(tmp_path, "--store", app.path, "metrics", "serve", "--host", "0.0.0.0")
    assert (remote.returncode, remote.stderr.count("\n")) == (2, 1)
    assert "--allow-remote" in remote.stderr


_WITHOUT = """
import sys
sys.modules["prometheus_client"] = None
sys.modules["opentelemetry"] = None
from outlast import InvalidInput, Outlast
with Outlast(sys.argv[1]) as app:
    app.enqueue("mail")
    print(app.metrics()["outlast_queue_depth"]["samples"])
for module in ("metrics", "otel"):
    try:
        __import__(f"outlast.{module}")
    except InvalidInput as error:
        print(error)
"""


def test_without_the_extras_the_dict_is_there_and_the_rest_says_what_is_missing(
    database: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT, str(database)],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        "[{'labels': {'queue': 'default'}, 'value': 1}]",
        "metrics in Prometheus' format need an extra: pip install 'outlast[metrics]'",
        "tracing needs an extra: pip install 'outlast[otel]'",
    ]
