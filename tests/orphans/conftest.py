"""Outlast objects without a detector of their own: the test alone decides who heals, and when."""

from collections.abc import Callable

import pytest

from outlast import Outlast


@pytest.fixture
def make_app(make_app: Callable[..., Outlast]) -> Callable[..., Outlast]:
    def make(**settings: object) -> Outlast:
        return make_app(**{"detection_interval_seconds": 0} | settings)

    return make
