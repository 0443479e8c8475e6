"""The documented path of the extra `metrics`: what a store tells Prometheus."""

from outlast.contrib.prometheus import OutlastCollector, exposition, serve

__all__ = ["OutlastCollector", "exposition", "serve"]
