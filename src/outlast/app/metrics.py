"""The verb of an Outlast object for its metrics: the numbers of the store, named and described."""

from typing import Any

from outlast.app.handle import StoreHandle


class MetricVerbs:
    """What goes on in the store, in numbers that other tools understand."""

    _handle: StoreHandle

    def metrics(self) -> dict[str, Any]:
        """Every metric by name: its `type`, its `help` and its `samples`, right for all processes.

        A sample has `labels` and a `value`; one of a histogram has `buckets`, `sum` and `count`.
        """
        # Few programs ask for metrics; the others are spared three modules.
        from outlast.domain.metrics import metrics

        handle = self._handle
        return metrics(handle.look().metrics.figures(handle.now(), handle.settings.patience))
