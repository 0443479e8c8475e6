"""Spans in memory: what was exported, and how it hangs together."""

from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Recorder:
    """A provider of tracers whose spans can be looked at."""

    def __init__(self) -> None:
        self.provider = TracerProvider()
        self._exporter = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def spans(self, start: str = "") -> list[ReadableSpan]:
        """The finished spans whose names begin so."""
        return [one for one in self._exporter.get_finished_spans() if one.name.startswith(start)]

    def one(self, start: str) -> ReadableSpan:
        (found,) = self.spans(start)
        return found


def ids_of(span: Any) -> list[int]:
    """Trace and span, as plain numbers."""
    context = span.context if isinstance(span, ReadableSpan) else span
    return [context.trace_id, context.span_id]


def told(span: ReadableSpan) -> dict[str, Any]:
    """A span as it can be said to another process."""
    return {
        "name": span.name,
        "kind": span.kind.name,
        "ids": ids_of(span),
        "parent": None if span.parent is None else ids_of(span.parent),
        "attributes": dict(span.attributes or {}),
        "links": [[dict(link.attributes or {}), ids_of(link.context)] for link in span.links],
        "status": span.status.status_code.name,
    }
