"""Making a failing script short: what can be left out without the failure going away, is."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from outlast_lab.model.script import TO_END, Script, Step
from outlast_lab.model.simulation import Run
from outlast_lab.model.woven import APP_OF

Repeat = Callable[[Script], Run]

# Steps of an actor in the middle of a call; if it is in none, they do nothing.
GOING_ON = ("goes on", "lines up", "ends its call", "dies")


def shrunk(run: Run, repeat: Repeat, patience_seconds: float) -> Run:
    """The shortest failing run that leaving out steps leads to, within reason.

    Delta debugging: first halves are left out, then quarters, and so on to single steps, again
    and again until no single step can be spared. Steps name tasks and leases, not moments, so
    what is left of a script keeps its meaning. Calls that need not be interrupted are not.
    """
    shrinking = _Shrinking(run, repeat, time.monotonic() + patience_seconds)
    shrinking.drop_idle_steps()
    shrinking.make_calls_whole()
    while True:
        length = len(shrinking.steps)
        shrinking.drop_steps()
        shrinking.make_calls_whole()
        if len(shrinking.steps) == length or shrinking.is_over:
            return shrinking.best


class _Shrinking:
    def __init__(self, run: Run, repeat: Repeat, ends_at: float) -> None:
        self.best = run
        self._repeat = repeat
        self._ends_at = ends_at

    @property
    def steps(self) -> Sequence[Step]:
        return self.best.script.steps

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._ends_at

    def _still_fails(self, steps: Sequence[Step]) -> bool:
        """If so, this is the best from now on; it may even break off earlier than it did."""
        again = self._repeat(replace(self.best.script, steps=tuple(steps)))
        if again.broken is not None:
            self.best = again
        return again.broken is not None

    def drop_idle_steps(self) -> None:
        """All that did nothing, at once."""
        pairs = zip(self.steps, self.best.answers, strict=True)
        telling = [step for step, answer in pairs if answer or step.verb not in GOING_ON]
        if len(telling) < len(self.steps):
            # The last one has no answer because the failure came with it.
            self._still_fails([*telling, self.steps[-1]])

    def make_calls_whole(self) -> None:
        """Each call, if that does, is one step from its beginning to its end."""
        at = 0
        while at < len(self.steps) and not self.is_over:
            step = self.steps[at]
            if step.is_call and step.tail != TO_END and step.who in APP_OF:
                self._still_fails(_with_whole_call(self.steps, at))
            at += 1

    def drop_steps(self) -> None:
        size = max(1, len(self.steps) // 2)
        while not self.is_over:
            if self._drop(size):
                size = min(size, max(1, len(self.steps) // 2))
            elif size == 1:
                return
            else:
                size = max(1, size // 2)

    def _drop(self, size: int) -> bool:
        """One pass over the script from its end; whether anything of this size could be spared."""
        length = len(self.steps)
        at = max(0, length - size)
        while not self.is_over and self.steps:
            self._still_fails([*self.steps[:at], *self.steps[at + size :]])
            if at == 0:
                break
            at = max(0, min(at - size, len(self.steps) - size))
        return len(self.steps) < length


def _with_whole_call(steps: Sequence[Step], at: int) -> list[Step]:
    """What else was said of the actor before its next call goes."""
    call = steps[at]
    rest = list(steps[at + 1 :])
    ends = [n for n, step in enumerate(rest) if step.is_call and step.who == call.who]
    until = ends[0] if ends else len(rest)
    kept = [step for step in rest[:until] if step.who != call.who or step.verb not in GOING_ON]
    return [*steps[:at], replace(call, tail=TO_END), *kept, *rest[until:]]
