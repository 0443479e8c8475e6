"""The extra `otel`: spans for enqueues and attempts, linked across processes by what is stored.

`instrument(app)` is all there is to call, where the app is made. Payloads, results and the messages
of errors are in no span.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, runtime_checkable

from outlast.domain.escaping import shown
from outlast.errors import InvalidInput
from outlast.store.new_tasks import NewTask
from outlast.store.records import Claimed, TaskTrace, Trace
from outlast.tasks.execute import Ended
from outlast.tasks.tracing import Tracing

try:
    from opentelemetry import context, trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as error:
    raise InvalidInput("tracing needs an extra: pip install 'outlast[otel]'") from error

SYSTEM = "outlast"
_W3C = TraceContextTextMapPropagator()


@runtime_checkable
class Instrumentable(Protocol):
    """An `Outlast` or an `AsyncOutlast`."""

    def use_tracing(self, tracing: Tracing | None) -> None:
        """Tell this one of each enqueue and each attempt from now on."""
        ...


def instrument(app: Instrumentable, tracer_provider: trace.TracerProvider | None = None) -> None:
    """Make a span for each enqueue and each attempt of this app from now on.

    Call it at module level, so that handlers in processes of their own are traced too. Without a
    provider the global one counts, whenever it is set.
    """
    _check(app)
    if tracer_provider is not None and not hasattr(tracer_provider, "get_tracer"):
        raise InvalidInput(
            "tracer_provider must be a TracerProvider of OpenTelemetry, not"
            f" {shown(tracer_provider)}"
        )
    app.use_tracing(OtelTracing(trace.get_tracer(SYSTEM, tracer_provider=tracer_provider)))


def uninstrument(app: Instrumentable) -> None:
    """Make no more spans."""
    _check(app)
    app.use_tracing(None)


def _check(app: object) -> None:
    if not isinstance(app, Instrumentable):
        raise InvalidInput(f"only an Outlast or an AsyncOutlast can be traced, not {shown(app)}")


class OtelTracing:
    """Tells OpenTelemetry, in the words of its messaging conventions."""

    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer

    def sending(self, new: Sequence[NewTask]) -> "Enqueueing":
        """A span of a producer, whose context is stored with the tasks."""
        first = new[0]
        about: dict[str, Any] = _about("enqueue", "send", first.queue, first.kind)
        if len(new) == 1:
            about["messaging.message.id"] = first.id
        else:
            about["messaging.batch.message_count"] = len(new)
        name = f"enqueue {first.queue}"
        return Enqueueing(
            self._tracer.start_span(name, kind=trace.SpanKind.PRODUCER, attributes=about)
        )

    def attempt(self, claimed: Claimed, before: TaskTrace | None) -> "Processing":
        """A span of a consumer: part of the trace its task was enqueued in, if there is one."""
        origin = None if before is None else _context_of(before.origin)
        earlier = None if before is None else _context_of(before.last_attempt)
        about = _about("process", "process", claimed.queue, claimed.kind) | {
            "messaging.message.id": claimed.task_id,
            "outlast.task.attempt": claimed.attempt,
        }
        links = [
            trace.Link(linked, {"outlast.link": meaning})
            for meaning, linked in (("enqueue", origin), ("previous attempt", earlier))
            if linked is not None
        ]
        parent = None
        if origin is not None:
            parent = trace.set_span_in_context(trace.NonRecordingSpan(origin))
        return Processing(
            self._tracer.start_span(
                f"process {claimed.queue}",
                context=parent,
                kind=trace.SpanKind.CONSUMER,
                attributes=about,
                links=links,
            )
        )

    def inside(self, trace: Trace) -> AbstractContextManager[object]:
        """Spans of a handler in a process of its own belong to the attempt in its worker."""
        return _attached(trace)


class Enqueueing:
    """The span of an enqueue."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span
        self.trace = _trace_of(span)

    def end(self, error: BaseException | None) -> None:
        """End it; an error is told by its type alone."""
        if error is not None:
            _mark_failed(self._span, type(error).__qualname__)
        self._span.end()


class Processing:
    """The span of an attempt."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span
        # Nobody would find the link: what is not recorded need not be noted either.
        self.trace = _trace_of(span) if span.is_recording() else None

    def current(self) -> AbstractContextManager[object]:
        """What the handler traces, and enqueues, belongs to it."""
        return trace.use_span(self._span, record_exception=False, set_status_on_exception=False)

    def end(self, ended: Ended | None) -> None:
        """End it, with how it went; an error is told by its type alone."""
        outcome = "broken off"
        if ended is not None:
            outcome = "completed" if ended.error is None else "failed"
            outcome = "given back" if ended.is_given_back else outcome
        self._span.set_attribute("outlast.task.outcome", outcome)
        if ended is not None and ended.error is not None:
            _mark_failed(self._span, ended.error_type)
        self._span.end()


def _about(name: str, type: str, queue: str, kind: str) -> dict[str, Any]:
    return {
        "messaging.system": SYSTEM,
        "messaging.operation.name": name,
        "messaging.operation.type": type,
        "messaging.destination.name": queue,
        "outlast.task.kind": kind,
    }


def _mark_failed(span: trace.Span, error_type: str) -> None:
    span.set_attribute("error.type", error_type)
    span.add_event("exception", {"exception.type": error_type})
    span.set_status(trace.StatusCode.ERROR)


def _trace_of(span: trace.Span) -> Trace | None:
    """The span's context as it is stored; None if there is nothing to refer to."""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, trace.set_span_in_context(span, context.Context()))
    if "traceparent" not in carrier:
        return None
    return Trace(carrier["traceparent"], carrier.get("tracestate"))


def _context_of(stored: Trace | None) -> trace.SpanContext | None:
    if stored is None:
        return None
    found = trace.get_current_span(_W3C.extract(_carrier(stored), context.Context()))
    span_context = found.get_span_context()
    return span_context if span_context.is_valid else None


def _carrier(stored: Trace) -> dict[str, str]:
    carrier = {"traceparent": stored.traceparent}
    return carrier if stored.tracestate is None else carrier | {"tracestate": stored.tracestate}


@contextmanager
def _attached(stored: Trace) -> Iterator[None]:
    token = context.attach(_W3C.extract(_carrier(stored)))
    try:
        yield
    finally:
        context.detach(token)
