"""One claimed task on its way through a worker, with the means to call its handler off."""

from collections.abc import Callable
from typing import Any

from outlast.store.records import Claimed, Grant
from outlast.tasks.context import Context
from outlast.tasks.execute import Ended
from outlast.tasks.functions import AnyFunction


class Job:
    """One claimed task on its way through a worker."""

    __slots__ = (
        "called_off_at", "called_off_utc_ms", "claimed", "ctx", "function", "interrupt",
        "lease_ends_mono_ms", "times_out_at",
    )  # fmt: skip

    def __init__(
        self,
        claimed: Claimed,
        function: AnyFunction,
        ctx: Context,
        claimed_mono_ms: int,
    ) -> None:
        self.claimed = claimed
        self.function = function
        self.ctx = ctx
        self.lease_ends_mono_ms = claimed_mono_ms + claimed.lease_ms
        self.times_out_at = float("inf")
        """When its handler has had its time, by time.monotonic()."""
        self.called_off_utc_ms: int | None = None
        """When its handler was told that nothing it does counts any more."""
        self.called_off_at = float("inf")
        """The same by time.monotonic()."""
        self.interrupt: Callable[[str], None] | None = None
        """Ends the handler, where that can be done."""

    @property
    def is_plain(self) -> bool:
        """Whether a thread runs it, and not the loop."""
        return not self.function.is_async or self.function.options.isolation == "process"

    @property
    def grant(self) -> Grant:
        """The proof of ownership."""
        return self.claimed.grant

    def fields(self) -> dict[str, Any]:
        """What a line in the log about it carries."""
        one = self.claimed
        return {
            "task_id": one.task_id, "kind": one.kind, "queue": one.queue, "attempt": one.attempt,
            "token": one.grant.token,
        }  # fmt: skip

    def renewed(self, mono_ms: int) -> None:
        """Its lease was pushed out from that moment."""
        self.lease_ends_mono_ms = max(self.lease_ends_mono_ms, mono_ms + self.claimed.lease_ms)

    def call_off(self, reason: str, now: float, now_utc_ms: int) -> None:
        """Tell the handler that nothing it does counts any more, and end it where possible."""
        if self.called_off_utc_ms is None:
            self.called_off_at, self.called_off_utc_ms = now, now_utc_ms
        self.ctx.cancel(reason)
        interrupt = self.interrupt
        if interrupt is not None:
            interrupt(reason)


BeginJob = Callable[[Job], bool]
EndJob = Callable[[Job, Ended], None]
