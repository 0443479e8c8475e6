"""A collector for Prometheus that reads the store, so that it is right for all its processes."""

from collections.abc import Iterator
from typing import Any, Protocol

from outlast.domain.metrics import METRICS, unreadable
from outlast.errors import InvalidInput, OutlastError
from outlast.logs import logger

try:
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
        Metric,
    )
    from prometheus_client.registry import Collector
except ImportError as error:
    raise InvalidInput(
        "metrics in Prometheus' format need an extra: pip install 'outlast[metrics]'"
    ) from error

log = logger("outlast.metrics")


class Measured(Protocol):
    """An `Outlast`."""

    def metrics(self) -> dict[str, Any]:
        """Every metric by name."""
        ...


class OutlastCollector(Collector):
    """Register it once, in any process that can read the file: `REGISTRY.register(…)`."""

    def __init__(self, app: Measured) -> None:
        self._app = app

    def describe(self) -> list[Metric]:
        """The names, so that registering does not open the store."""
        return [_family(name, about.kind, about.help, about.labels) for name, about in
                METRICS.items()]  # fmt: skip

    def collect(self) -> Iterator[Metric]:
        """Everything, from one consistent read; of a store that cannot be read, only that."""
        try:
            found = self._app.metrics()
        except OutlastError as error:
            log.warning("the store could not be measured: %s", error)
            found = unreadable()
        for name, about in found.items():
            labels = METRICS[name].labels
            family = _family(name, about["type"], about["help"], labels)
            for one in about["samples"]:
                _add(family, [one["labels"][label] for label in labels], one)
            yield family


def _family(name: str, kind: str, help: str, labels: tuple[str, ...]) -> Metric:
    if kind == "counter":
        return CounterMetricFamily(name.removesuffix("_total"), help, labels=labels)
    if kind == "histogram":
        return HistogramMetricFamily(name, help, labels=labels)
    return GaugeMetricFamily(name, help, labels=labels)


def _add(family: Metric, labels: list[str], sample: dict[str, Any]) -> None:
    if isinstance(family, HistogramMetricFamily):
        family.add_metric(labels, list(sample["buckets"].items()), sample["sum"])
    elif isinstance(family, CounterMetricFamily | GaugeMetricFamily):
        family.add_metric(labels, sample["value"])
