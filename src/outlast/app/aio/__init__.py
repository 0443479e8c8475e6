"""Outlast for coroutines: the same contract, awaited."""

from outlast.app.aio.app import AsyncOutlast
from outlast.app.aio.lease import AsyncLease
from outlast.app.aio.locks import AsyncNamedLock
from outlast.app.aio.subscription import AsyncSubscription
from outlast.app.aio.worker import AsyncWorker

__all__ = ["AsyncLease", "AsyncNamedLock", "AsyncOutlast", "AsyncSubscription", "AsyncWorker"]
