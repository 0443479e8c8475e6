"""The extra `metrics`: what a store tells Prometheus, in a registry or over HTTP."""

from outlast.metrics.collector import OutlastCollector
from outlast.metrics.serving import exposition, serve

__all__ = ["OutlastCollector", "exposition", "serve"]
