"""One process enqueues, one works and is killed, one works again: one trace, with links."""

from pathlib import Path
from typing import Any

import pytest

from tests.crash.workers.working import until
from tests.support.children import Child


def _enqueues(path: str, sign: str) -> None:
    import os

    os.environ["TRACED_STORE"] = path
    from tests.otel.spans import told
    from tests.otel.traced_jobs import app, recorder
    from tests.support.childside import say

    with app:
        app.enqueue("waits", {"sign": sign}, id="t")
    say(told(recorder.one("enqueue")))


def _works(path: str) -> None:
    import os

    os.environ["TRACED_STORE"] = path
    from tests.otel.spans import told
    from tests.otel.traced_jobs import app, recorder
    from tests.support.childside import say

    with app:
        app.worker(concurrency=1).run(until_empty=True)
        say([told(one) for one in recorder.spans("process")])
        say(app.get("t").result)


def _ids(traceparent: str) -> list[int]:
    _, trace_id, span_id, _ = traceparent.split("-")
    return [int(trace_id, 16), int(span_id, 16)]


@pytest.mark.proves("OBS-10")
def test_a_task_that_was_killed_and_run_again_is_one_trace_whose_attempts_are_linked(
    database: Path, tmp_path: Path
) -> None:
    sign = tmp_path / "sign"
    with Child(_enqueues, database, sign) as child:
        sent: Any = child.hear()
        assert child.wait() == 0, child.error()
    assert (sent["kind"], sent["attributes"]["messaging.message.id"]) == ("PRODUCER", "t")
    with Child(_works, database) as worker:
        until(sign.exists, "the handler does not begin")
        worker.kill()
    killed = _ids(sign.read_text())
    assert killed[0] == sent["ids"][0], "the attempt that was killed was part of the same trace"
    with Child(_works, database) as worker:
        (attempt,) = worker.hear()
        result = worker.hear()
        assert worker.wait() == 0, worker.error()
    assert attempt["kind"] == "CONSUMER"
    assert attempt["attributes"]["outlast.task.attempt"] == 2
    assert attempt["parent"] == sent["ids"]
    assert attempt["links"] == [
        [{"outlast.link": "enqueue"}, sent["ids"]],
        [{"outlast.link": "previous attempt"}, killed],
    ]
    assert _ids(result) == attempt["ids"]
