"""The faults of `lab io`: which call of which file fails, how, and for how long."""

import errno
import re
from typing import NamedTuple

from outlast.errors import InvalidInput
from outlast_lab.lives import LIVES

# For how long: one call; that and all later ones, until the fault is lifted; or one call, and the
# process is killed as soon as it has its answer, and an answer to what it did not know.
ONCE, LASTING, DEADLY = "once", "lasting", "deadly"

# How a call can fail. What is only done by half, or done and reported as failed all the same, are
# faults of their own: they leave something behind that the caller does not know of.
ERROR, FULL, SHORT, TORN, TORN_FULL, LATE, BUSY, DESCRIPTORS = (
    "error",
    "full",
    "short",
    "torn",
    "torn-full",
    "late",
    "busy",
    "descriptors",
)

ERRNO = {
    ERROR: errno.EIO,
    TORN: errno.EIO,
    LATE: errno.EIO,
    FULL: errno.ENOSPC,
    TORN_FULL: errno.ENOSPC,
    BUSY: errno.EAGAIN,
    DESCRIPTORS: errno.EMFILE,
}

# What fits each call. SQLite makes the first ones, by the system calls of its own VFS; those that
# begin with "side" are Outlast's own, on the files beside the database.
FITTING = {
    "open": (ERROR, DESCRIPTORS, FULL),
    "read": (ERROR, SHORT),
    "write": (ERROR, FULL, TORN, TORN_FULL, LATE),
    "truncate": (ERROR, FULL),
    "sync": (ERROR, LATE),
    "delete": (ERROR,),
    "size": (ERROR,),
    "look": (ERROR,),
    "map": (ERROR,),
    "lock": (ERROR, BUSY),
    "folder": (ERROR,),
    "side-open": (ERROR, DESCRIPTORS, FULL),
    "side-lock": (ERROR,),
    "side-folder": (ERROR, FULL),
    "side-rename": (ERROR, FULL),
    "side-remove": (ERROR,),
    "side-allocate": (ERROR, FULL),
    "side-map": (ERROR,),
    "side-sync": (ERROR,),
}

# Such a fault means "wait and try again", for as long as the settings say.
_NEVER_LASTING = "lock"
# What may leave something in the files that only the next process finds.
_WORTH_DYING_FOR = ("write", "sync", "truncate")

_CASE = re.compile(
    r"(?P<life>[^:]+): (?P<call>[a-z-]+ [a-z]+) (?P<nth>[1-9]\d*) (?P<how>\S+) (?P<long>\S+)"
)
_UNHARMED = " without a fault"


class Fault(NamedTuple):
    """The nth call of a kind on a sort of file fails; if lasting, so do all later of the kind."""

    call: str
    nth: int
    how: str
    how_long: str = ONCE

    @property
    def kind(self) -> str:
        """The call without its file."""
        return self.call.partition(" ")[0]

    def __str__(self) -> str:
        """As it stands in the text of a case."""
        return f"{self.call} {self.nth} {self.how} {self.how_long}"

    def strikes(self, call: str, nth: int, has_struck: bool) -> bool:
        """Whether this call is to fail; a lasting fault meets the kind on every file."""
        if self.how_long == LASTING and has_struck:
            return call.partition(" ")[0] == self.kind
        return call == self.call and nth == self.nth


class Case(NamedTuple):
    """One fault in one life."""

    life: str
    fault: Fault

    def __str__(self) -> str:
        """What `--case` takes."""
        return f"{self.life}: {self.fault}"


def case_of(text: str) -> Case:
    """The case that a text stands for; InvalidInput if there can be none."""
    found = _CASE.fullmatch(text)
    if found is not None and found["life"] in LIVES:
        fault = Fault(found["call"], int(found["nth"]), found["how"], found["long"])
        if fault.kind in FITTING and fault in faults_at(fault.call, fault.nth):
            return Case(found["life"], fault)
    raise InvalidInput(
        f"{text!r} is no case; one reads like 'enqueue: write wal 17 full once',"
        " 'enqueue without a fault' or 'small disk of 600 KiB'"
    )


def unharmed(life: str) -> str:
    """What the case is called in which a life is played and nothing fails."""
    return f"{life}{_UNHARMED}"


def unharmed_life(text: str) -> str | None:
    """The life that such a text names, or None if it is another text."""
    life = text.removesuffix(_UNHARMED)
    return life if life != text and life in LIVES else None


def faults_at(call: str, nth: int) -> list[Fault]:
    """Every fault that fits the nth call of a kind on a sort of file."""
    kind = call.partition(" ")[0]
    lengths = [ONCE]
    if kind != _NEVER_LASTING:
        lengths.append(LASTING)
    if kind in _WORTH_DYING_FOR:
        lengths.append(DEADLY)
    return [Fault(call, nth, how, how_long) for how in FITTING[kind] for how_long in lengths]
