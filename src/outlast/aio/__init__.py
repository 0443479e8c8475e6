"""Outlast for coroutines: the same contract, awaited."""

from outlast.aio.app import AsyncOutlast
from outlast.aio.lease import AsyncLease
from outlast.aio.locks import AsyncNamedLock
from outlast.aio.subscription import AsyncSubscription
from outlast.aio.worker import AsyncWorker

__all__ = ["AsyncLease", "AsyncNamedLock", "AsyncOutlast", "AsyncSubscription", "AsyncWorker"]
