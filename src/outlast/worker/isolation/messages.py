"""The messages between a worker and the process of an isolated handler."""

from typing import Literal, NamedTuple

import msgspec

from outlast.store.records import Claimed, Trace
from outlast.tasks.execute import Ended

Verb = Literal["checkpoint", "complete", "latest_checkpoint", "progress", "stopping"]


class Place(NamedTuple):
    """Where another process finds a function: in a module by name, or in a file that is run.

    File names travel as the bytes they are on disk.
    """

    module: str
    qualname: str
    file: bytes | None = None


class Job(msgspec.Struct, array_like=True):
    """One task to run: where its function is, what was claimed, what the work may use."""

    place: Place
    claimed: Claimed
    memory_limit_bytes: int | None
    argv: list[bytes]
    trace: Trace | None = None


class Call(msgspec.Struct, array_like=True):
    """A verb of the context that the worker has to do; the arguments are one JSON text."""

    number: int
    verb: Verb
    arguments: str


class Trouble(msgspec.Struct, array_like=True):
    """An error by its name, with its message and those of its attributes that are JSON."""

    name: str
    message: str
    facts: str


class Answer(msgspec.Struct, array_like=True):
    """What became of the call of that number: its value as JSON text, or an error."""

    number: int
    value: str
    trouble: Trouble | None = None


class ToHandler(msgspec.Struct, array_like=True, kw_only=True):
    """From the worker: a job, or the answer to a call."""

    job: Job | None = None
    answer: Answer | None = None


class FromHandler(msgspec.Struct, array_like=True, kw_only=True):
    """From the handler's process: who it is, that a handler begins, a call, or how it ended."""

    pid: int | None = None
    has_begun: bool = False
    call: Call | None = None
    ended: Ended | None = None
