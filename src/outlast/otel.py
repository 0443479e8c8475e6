"""The documented path of the extra `otel`: spans for enqueues and attempts."""

from outlast.contrib.otel import instrument, uninstrument

__all__ = ["instrument", "uninstrument"]
