"""The extra `metrics`: what a store tells Prometheus, in a registry or over HTTP."""

from outlast.contrib.prometheus.collector import OutlastCollector
from outlast.contrib.prometheus.serving import exposition, serve

__all__ = ["OutlastCollector", "exposition", "serve"]
