"""Outlast for coroutines: the same contract, awaited."""

from outlast.aio.app import AsyncOutlast
from outlast.aio.lease import AsyncLease
from outlast.aio.worker import AsyncWorker

__all__ = ["AsyncLease", "AsyncOutlast", "AsyncWorker"]
