"""Outlast for coroutines: the same contract, awaited."""

from outlast.aio.app import AsyncOutlast
from outlast.aio.lease import AsyncLease

__all__ = ["AsyncLease", "AsyncOutlast"]
