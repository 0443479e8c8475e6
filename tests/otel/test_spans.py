"""Spans of one process: who is whose parent, what they say, and what they never say."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan

from outlast import AsyncOutlast, InvalidInput, Outlast
from outlast.otel import instrument, uninstrument
from outlast.testing import drain
from tests.otel import traced_jobs as jobs
from tests.otel.spans import Recorder, ids_of
from tests.support.foreign import foreign_rows

TRACES = "SELECT traceparent, attempt_traceparent FROM task_traces ORDER BY task_seq"


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def app(database: Path, recorder: Recorder) -> Iterator[Outlast]:
    """On the system's clock, with the handlers of the traced program."""
    with Outlast(database) as opened:
        for kind in ("in_a_thread", "on_the_loop", "in_a_process", "fails"):
            opened.functions.register(jobs.app.functions[kind])
        instrument(opened, recorder.provider)
        yield opened


@pytest.mark.parametrize(
    "call",
    [
        lambda app: instrument(None),  # type: ignore[arg-type]
        lambda app: uninstrument("work.db"),  # type: ignore[arg-type]
        lambda app: instrument(app, "nonsense"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_traced_is_refused_in_words(
    app: Outlast, call: Callable[[Outlast], None]
) -> None:
    with pytest.raises(InvalidInput, match=r"Outlast|TracerProvider"):
        call(app)


def _traceparent(span: ReadableSpan) -> str:
    context = span.context
    trace_id = trace.format_trace_id(context.trace_id)
    return f"00-{trace_id}-{trace.format_span_id(context.span_id)}-{context.trace_flags:02x}"


def test_an_enqueue_is_a_producers_span_in_the_words_of_the_conventions(
    app: Outlast, recorder: Recorder
) -> None:
    with recorder.provider.get_tracer("caller").start_as_current_span("request"):
        task = app.enqueue("mail", {"secret": "s3cr3t"}, queue="out")
    sent, request = recorder.one("enqueue out"), recorder.one("request")
    assert sent.kind is trace.SpanKind.PRODUCER
    assert sent.parent is not None
    assert ids_of(sent.parent) == ids_of(request)
    assert sent.attributes == {
        "messaging.system": "outlast",
        "messaging.operation.name": "enqueue",
        "messaging.operation.type": "send",
        "messaging.destination.name": "out",
        "messaging.message.id": task.id,
        "outlast.task.kind": "mail",
    }


def test_a_batch_is_one_span_and_all_its_tasks_come_from_it(
    app: Outlast, recorder: Recorder, database: Path
) -> None:
    app.enqueue_many("mail", range(3))
    sent = recorder.one("enqueue")
    assert sent.attributes is not None
    assert sent.attributes["messaging.batch.message_count"] == 3
    assert foreign_rows(database, TRACES) == [[_traceparent(sent), None]] * 3


@pytest.mark.parametrize("kind", ["in_a_thread", "on_the_loop"])
def test_an_attempt_is_a_consumers_span_linked_to_its_enqueue_and_current_in_the_handler(
    app: Outlast, recorder: Recorder, kind: str
) -> None:
    task = app.enqueue(kind)
    app.worker(concurrency=2).run(until_empty=True)
    sent, attempt = recorder.one("enqueue default"), recorder.one("process default")
    assert attempt.kind is trace.SpanKind.CONSUMER
    assert [ids_of(link.context) for link in attempt.links] == [ids_of(sent)]
    assert attempt.parent is not None
    assert ids_of(attempt.parent) == ids_of(sent)
    assert app.get(task.id).result == _traceparent(attempt)
    assert attempt.attributes == {
        "messaging.system": "outlast",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "default",
        "messaging.message.id": task.id,
        "outlast.task.kind": kind,
        "outlast.task.attempt": 1,
        "outlast.task.outcome": "completed",
    }


def test_spans_of_a_handler_in_its_own_process_belong_to_the_attempt(
    app: Outlast, recorder: Recorder
) -> None:
    import os

    task = app.enqueue("in_a_process")
    app.worker(concurrency=1).run(until_empty=True)
    attempt = recorder.one("process default")
    pid, current, parent = app.get(task.id).result
    assert pid != os.getpid()
    assert current == _traceparent(attempt)
    assert parent == trace.format_span_id(attempt.context.span_id)


def test_what_a_handler_enqueues_is_part_of_its_attempt(app: Outlast, recorder: Recorder) -> None:
    @app.task
    def passes_on() -> str:
        return app.enqueue("in_a_thread").id

    passes_on.enqueue()
    app.worker(concurrency=1).run(until_empty=True)
    first, second = recorder.spans("enqueue")
    outer, inner = recorder.spans("process")
    assert second.parent is not None
    assert ids_of(second.parent) == ids_of(outer)
    assert len({one.context.trace_id for one in (first, second, outer, inner)}) == 1


def test_errors_are_told_by_their_type_and_never_with_what_was_in_them(
    app: Outlast, recorder: Recorder
) -> None:
    app.enqueue("fails", {"secret": "s3cr3t"})
    app.worker(concurrency=1).run(until_empty=True)
    with pytest.raises(InvalidInput):
        app.enqueue("in_a_thread", {"no such argument": "s3cr3t"})
    attempt = recorder.one("process")
    assert attempt.attributes is not None
    assert attempt.attributes["error.type"] == "ValueError"
    assert attempt.attributes["outlast.task.outcome"] == "failed"
    assert attempt.status.status_code is trace.StatusCode.ERROR
    assert [event.name for event in attempt.events] == ["exception"]
    assert "s3cr3t" not in "".join(one.to_json() for one in recorder.spans())


def test_a_refused_enqueue_ends_its_span_with_the_error(app: Outlast, recorder: Recorder) -> None:
    app.enqueue("mail", id="t")
    with pytest.raises(InvalidInput):
        app.enqueue("mail", id="t")
    fine, refused = recorder.spans("enqueue")
    assert fine.status.status_code is trace.StatusCode.UNSET
    assert refused.status.status_code is trace.StatusCode.ERROR
    assert refused.attributes is not None
    assert refused.attributes["error.type"] == "InvalidInput"


def test_a_task_found_by_its_key_keeps_the_trace_it_came_from(
    app: Outlast, recorder: Recorder, database: Path
) -> None:
    first = app.enqueue("mail", idempotency_key="k")
    assert app.enqueue("mail", idempotency_key="k").id == first.id
    sent, _ = recorder.spans("enqueue")
    assert foreign_rows(database, TRACES) == [[_traceparent(sent), None]]


def test_drained_tasks_are_traced_too(app: Outlast, recorder: Recorder) -> None:
    app.enqueue("in_a_thread")
    drain(app)
    assert len(recorder.spans("process")) == 1


def test_without_spans_nothing_is_stored(database: Path) -> None:
    """Not instrumented, instrumented without an SDK, and instrumented no more."""
    with Outlast(database) as app:
        app.enqueue("mail")
        instrument(app, trace.NoOpTracerProvider())
        app.enqueue("mail")
        recorder = Recorder()
        instrument(app, recorder.provider)
        uninstrument(app)
        app.enqueue_many("mail", range(2))
        assert recorder.spans() == []
    assert foreign_rows(database, TRACES) == []


def test_a_tracer_that_breaks_stops_no_work(database: Path) -> None:
    class Broken:
        def start_span(self, *args: object, **kwargs: object) -> None:
            raise RuntimeError("no spans today")

    class Provider(trace.TracerProvider):
        def get_tracer(self, *args: object, **kwargs: object) -> trace.Tracer:
            return Broken()  # type: ignore[return-value]

    with Outlast(database) as app:
        app.functions.register(jobs.app.functions["in_a_thread"])
        instrument(app, Provider())
        task = app.enqueue("in_a_thread")
        assert app.worker(concurrency=1).run(until_empty=True).completed == 1
        assert app.get(task.id).status == "completed"


async def _enqueues(database: Path, recorder: Recorder) -> None:
    async with AsyncOutlast(database) as app:
        instrument(app, recorder.provider)
        with recorder.provider.get_tracer("caller").start_as_current_span("request"):
            await asyncio.gather(*(app.enqueue("mail") for _ in range(5)))


def test_enqueues_of_coroutines_are_spans_of_their_callers(
    database: Path, recorder: Recorder
) -> None:
    asyncio.run(_enqueues(database, recorder))
    request = recorder.one("request")
    sent = recorder.spans("enqueue")
    assert [ids_of(one.parent) for one in sent] == [ids_of(request)] * 5
    assert sorted(row for row, _ in foreign_rows(database, TRACES)) == sorted(
        _traceparent(one) for one in sent
    )
