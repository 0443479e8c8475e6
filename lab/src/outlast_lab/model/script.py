"""The script of a simulation: one step a line, for people to read and for the machine to repeat.

    exact anything, action retry
    a1: enqueue(kind='a', name='t1') -> t1
    a1: claim(worker='w1', limit=2) -> t1 token 1
    clock +61 s
    p1 crashes

The first line says which simulation it is and with what policy. What stands behind an arrow is
what was answered; it is not read back.
"""

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from outlast.errors import InvalidInput
from outlast_lab.model.terms import POLICIES

ARROW = " -> "

# In a call by an actor, how far it runs: to its next boundary, or to its end.
TO_BOUNDARY, TO_END = "", " to its end"

_CALL = re.compile(r"(?P<who>\w+): (?P<verb>\w+)\((?P<args>.*)\)(?P<tail>[^()]*)\Z")
_CLOCK = re.compile(r"(?P<wall>wall )?clock (?P<seconds>[+-][\d.]+) s\Z")
_EVENT = re.compile(r"(?P<who>\w+) (?P<verb>goes on|lines up|ends its call|crashes)\Z")
_DEATH = re.compile(r"(?P<who>\w+) dies at (?P<probe>[\w.]+)\Z")
_HEADER = re.compile(r"(?P<world>\w+) (?P<profile>\w+), action (?P<action>[\w ]+)\Z")


class Broken(Exception):
    """The queue did something it must not do; the sentence says what."""


class NotAScript(InvalidInput):
    """A line of a script cannot be read."""


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happens: who does what. `verb` is a call's, or one of the events' words."""

    who: str
    verb: str
    args: dict[str, Any] = field(default_factory=dict)
    tail: str = ""

    @property
    def is_call(self) -> bool:
        """Whether it is a call of the queue; else it befalls processes or clocks."""
        return self.verb not in EVENTS

    def __str__(self) -> str:
        """The line of a script."""
        if self.verb in ("clock", "wall clock"):
            return f"{self.verb} {self.args['seconds']:+.10g} s"
        if self.verb == "dies":
            return f"{self.who} dies at {self.args['probe']}"
        if not self.is_call:
            return f"{self.who} {self.verb}"
        given = ", ".join(f"{name}={value!r}" for name, value in self.args.items())
        return f"{self.who}: {self.verb}({given}){self.tail}"


EVENTS = ("clock", "wall clock", "dies", "goes on", "lines up", "ends its call", "crashes")


def clock(seconds: float) -> Step:
    """Time passes on both clocks."""
    return Step("", "clock", {"seconds": seconds})


def wall_clock(seconds: float) -> Step:
    """Somebody sets the wall clock."""
    return Step("", "wall clock", {"seconds": seconds})


@dataclass(frozen=True, slots=True)
class Script:
    """A simulation, from its beginning to the last step."""

    world: str
    profile: str
    action: str
    steps: Sequence[Step] = ()

    @property
    def header(self) -> str:
        """The first line."""
        return f"{self.world} {self.profile}, action {self.action}"

    def __str__(self) -> str:
        """Line by line."""
        return "\n".join([self.header, *map(str, self.steps)])


def parse(text: str) -> Script:
    """The script that a text tells; raises NotAScript with the line it cannot read."""
    lines = [line.partition(ARROW)[0].rstrip() for line in text.strip().splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    header = _HEADER.match(lines[0]) if lines else None
    if header is None:
        raise NotAScript(f"a script begins like 'exact anything, action retry', not {text[:60]!r}")
    if header["action"] not in POLICIES:
        raise NotAScript(f"no policy is called {header['action']!r}: {', '.join(POLICIES)}")
    return Script(**header.groupdict(), steps=[_step(line.strip()) for line in lines[1:]])


def _step(line: str) -> Step:
    if found := _CLOCK.match(line):
        verb = "wall clock" if found["wall"] else "clock"
        return Step("", verb, {"seconds": float(found["seconds"])})
    if found := _EVENT.match(line):
        return Step(found["who"], found["verb"])
    if found := _DEATH.match(line):
        return Step(found["who"], "dies", {"probe": found["probe"]})
    if found := _CALL.match(line):
        return Step(found["who"], found["verb"], _arguments(found["args"], line), found["tail"])
    raise NotAScript(f"no step of a script looks like this, so mend the line: {line!r}")


def _arguments(text: str, line: str) -> dict[str, Any]:
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        assert isinstance(call, ast.Call)
        return {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}
    except (SyntaxError, ValueError) as error:
        raise NotAScript(f"the arguments cannot be read: {line!r}") from error
