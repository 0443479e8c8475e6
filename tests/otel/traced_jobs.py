"""A program whose app is traced: its handlers run in threads, on a loop, in a process."""

import os
from pathlib import Path
from typing import Any

from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from outlast import Outlast
from outlast.otel import instrument
from tests.otel.spans import Recorder

recorder = Recorder()
app = Outlast(os.environ.get("TRACED_STORE", "never-opened.db"))
instrument(app, recorder.provider)


def current() -> str | None:
    """The traceparent that is current where this is called."""
    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get("traceparent")


@app.task
def in_a_thread() -> str | None:
    return current()


@app.task
async def on_the_loop() -> str | None:
    return current()


@app.task(isolation="process")
def in_a_process() -> list[Any]:
    with recorder.provider.get_tracer("handler").start_as_current_span("inner"):
        pass
    inner = recorder.one("inner")
    assert inner.parent is not None
    return [os.getpid(), current(), trace.format_span_id(inner.parent.span_id)]


@app.task(max_retries=0)
def fails(secret: str) -> None:
    raise ValueError(f"cannot read {secret}")


@app.task
def waits(ctx: Any, sign: str) -> str | None:
    """In its first attempt it stays until it is killed."""
    if ctx.attempt == 1:
        part = Path(sign).with_suffix(".part")
        part.write_text(str(current()))
        part.rename(sign)
        ctx.wait(600)
    return current()
