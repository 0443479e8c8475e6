"""One play for two casts: the same awaits reach an AsyncOutlast or, at once, an Outlast."""

from collections.abc import Callable
from dataclasses import replace
from inspect import isasyncgen
from typing import Any

from outlast import (
    AsyncLease,
    AsyncOutlast,
    Checkpoint,
    IntegrityResult,
    Lease,
    Outlast,
    OutlastError,
    RecoveryReport,
    RecoveryStatus,
    RecoveryStep,
    Snapshot,
    Task,
    WorkerInfo,
)


class Cast:
    """Lets a scene await either object, and keeps a record of every answer."""

    def __init__(
        self, plays: Outlast | AsyncOutlast | Lease | AsyncLease, record: list[Any]
    ) -> None:
        self._plays = plays
        self._record = record

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._plays, name)
        return self._verb(name, found) if callable(found) else found

    def _verb(self, name: str, verb: Callable[..., Any]) -> Any:
        async def call(*args: Any, **options: Any) -> Any:
            try:
                answer = verb(*map(_off_stage, args), **options)
                if isasyncgen(answer):
                    answer = [one async for one in answer]
                elif isinstance(self._plays, AsyncOutlast | AsyncLease):
                    answer = await answer
                elif isinstance(answer, Snapshot):
                    answer = list(answer)
            except (OutlastError, TimeoutError) as error:
                self._record.append((name, type(error), str(error)))
                return None
            self._record.append((name, _comparable(answer)))
            return self._on_stage(answer)

        return call

    def _on_stage(self, answer: Any) -> Any:
        if isinstance(answer, list) and answer and isinstance(answer[0], Lease | AsyncLease):
            return [Cast(one, self._record) for one in answer]
        return answer


def _off_stage(value: Any) -> Any:
    """What the objects themselves must be given: leases without their costume."""
    if isinstance(value, Cast):
        return value._plays
    if isinstance(value, list | tuple):
        return type(value)(map(_off_stage, value))
    return value


def _untimed(one: Any) -> Any:
    """Without what the real clock says of how long it took."""
    name = "seconds" if isinstance(one, RecoveryStep) else "duration_seconds"
    return replace(one, **{name: 0.0})


def _comparable(answer: Any) -> Any:
    if isinstance(answer, list):
        return [_comparable(one) for one in answer]
    if isinstance(answer, Lease | AsyncLease):
        names = "task_id token kind queue group attempt lease_ms expires_at payload".split()
        return [getattr(answer, name) for name in names]
    if isinstance(answer, Checkpoint):
        return replace(answer, id="")
    if isinstance(answer, Task) and answer.retry_of:
        # A clone's id is made by the library, and its checksum with it.
        return replace(answer, id="", stored_payload=None)  # type: ignore[arg-type]
    if isinstance(answer, IntegrityResult | RecoveryStep):
        return _untimed(answer)
    if isinstance(answer, RecoveryReport):
        return replace(
            answer,
            integrity=_untimed(answer.integrity),
            integrity_after=_untimed(answer.integrity_after),
            steps=tuple(map(_untimed, answer.steps)),
        )
    if isinstance(answer, RecoveryStatus) and answer.last is not None:
        return replace(answer, last=_comparable(answer.last))
    if isinstance(answer, WorkerInfo):
        return replace(answer, incarnation="")
    if isinstance(answer, Outlast | AsyncOutlast):
        return "itself"
    return answer
