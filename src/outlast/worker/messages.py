"""The messages between a worker and its store process, and the socket that carries them."""

import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from outlast.domain.budgets import Backoff
from outlast.domain.lifecycle import WORKER, Cause, Outcome
from outlast.store.records import Claimed, Grant, Settlement

_LENGTH = struct.Struct("<I")
_READ_BYTES = 1 << 18

_COMPLETED = Cause(Outcome.COMPLETE, WORKER)
# `tuple.__new__` skips the Python-level constructor of a named tuple, which is slower.
_new_tuple = tuple.__new__

Message = TypeVar("Message", bound=msgspec.Struct)

# A task's row and token: with the holder, which never changes, its grant.
Proof = tuple[int, int]
Completed = tuple[int, int, str | None]
# A line of the store process's log: level, logger, text, what it is about.
Logged = tuple[int, str, str, dict[str, Any]]


class Begin(msgspec.Struct, array_like=True):
    """The first message to a store process: the store's path, the worker, and its terms."""

    path: str
    settings: dict[str, Any]
    worker: str
    row: int
    incarnation: str
    pid: int
    queues: list[str]
    kinds: list[str]
    lease_ms_by_kind: dict[str, int]
    beat_ms: int
    serves: str
    log_level: int = 0
    is_successor: bool = False
    until_empty: bool = False


class Ending(NamedTuple):
    """The end of a lease that is more than a plain success."""

    seq: int
    token: int
    outcome: Outcome
    result: str | None = None
    error: str | None = None
    retryable: bool = True
    backoff_ms: tuple[int, int] = (0, 0)
    jitter: float = 1.0
    exit_signal: int | None = None
    peak_memory_bytes: int | None = None

    def cause(self) -> Cause:
        """What happened, in the words of the domain."""
        return Cause(
            self.outcome,
            WORKER,
            error=self.error,
            retryable=self.retryable,
            backoff=Backoff(*self.backoff_ms),
            jitter=self.jitter,
        )

    def settlement(self, row: int, task_id: str = "") -> Settlement:
        """What the store is told of it."""
        return Settlement(
            Grant(self.seq, row, self.token),
            task_id or f"number {self.seq}",
            self.cause(),
            self.result,
            self.exit_signal,
            self.peak_memory_bytes,
        )


def completed_ending(seq: int, token: int, result: str | None) -> Ending:
    """A plain success, written out."""
    return Ending(seq, token, Outcome.COMPLETE, result)


class Report(msgspec.Struct, array_like=True, kw_only=True):
    """From the worker: what ended, and how many tasks it would take in all since the beginning."""

    completed: list[Completed] = []
    endings: list[Ending] = []
    held: list[Claimed] = []
    dropped: list[Proof] = []
    takes_in_all: int = 0
    excluding: list[int] = []
    stuck: str | None = None
    progress: str | None = None
    leave: bool = False


def settlements_in(report: Report, row: int, held: Mapping[Proof, Claimed]) -> Iterator[Settlement]:
    """What the store is told of the endings in a report."""
    for seq, token, result in report.completed:
        known = held.get((seq, token))
        grant = _new_tuple(Grant, (seq, row, token)) if known is None else known.grant
        task_id = f"number {seq}" if known is None else known.task_id
        yield _new_tuple(Settlement, (grant, task_id, _COMPLETED, result, None, None))
    for one in report.endings:
        known = held.get((one.seq, one.token))
        yield one.settlement(row, "" if known is None else known.task_id)


class News(msgspec.Struct, array_like=True, kw_only=True):
    """From the store process: what is committed, what is new, what is lost."""

    handed: list[Claimed] = []
    claimed_mono_ms: int = 0
    settled: list[Proof] = []
    lost: list[Proof] = []
    beaten_mono_ms: int | None = None
    found_no_work: bool | None = None
    excluding: list[int] = []
    awaits_retries: bool = False
    trouble: str | None = None
    logs: list[Logged] = []
    unstorable: list[Proof] = []
    is_replaced: str | None = None
    is_dead: bool = False
    has_left: bool = False


class Wire(Generic[Message]):
    """One end of a stream of messages; neither reading nor writing ever blocks."""

    def __init__(self, end: socket.socket, reads: type[Message]) -> None:
        end.setblocking(False)
        self._socket = end
        self._decoder = msgspec.msgpack.Decoder(reads)
        self._encoder = msgspec.msgpack.Encoder()
        self._incoming = bytearray()
        self._outgoing = bytearray()

    def fileno(self) -> int:
        """What to wait on."""
        return self._socket.fileno()

    @property
    def has_unsent(self) -> bool:
        """Whether the other side is slow to read."""
        return bool(self._outgoing)

    def send(self, message: msgspec.Struct) -> None:
        """Send what can be sent now; the rest goes with the next flush."""
        text = self._encoder.encode(message)
        self._outgoing += _LENGTH.pack(len(text))
        self._outgoing += text
        self.flush()

    def flush(self) -> None:
        """Send more of what waits; an end that is gone shows when it is read from."""
        with suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            while self._outgoing:
                sent = self._socket.send(self._outgoing)
                del self._outgoing[:sent]

    def messages(self) -> list[Message]:
        """Everything that has arrived; EOFError when the other side is gone."""
        is_over = False
        try:
            while not is_over:
                chunk = self._socket.recv(_READ_BYTES)
                is_over = not chunk
                self._incoming += chunk
                if len(chunk) < _READ_BYTES:
                    break
        except BlockingIOError:
            pass
        except ConnectionResetError:
            is_over = True
        found = self._parsed()
        if is_over and not found:
            raise EOFError
        return found

    def _parsed(self) -> list[Message]:
        found = []
        at = 0
        while len(self._incoming) - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._incoming, at)
            end = at + _LENGTH.size + length
            if len(self._incoming) < end:
                break
            found.append(self._decoder.decode(self._incoming[at + _LENGTH.size : end]))
            at = end
        del self._incoming[:at]
        return found

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def first_message(end: socket.socket, reads: type[Message]) -> Message | None:
    """Wait for the message that opens a stream, and take no byte of what follows it."""
    head = _exactly(end, _LENGTH.size)
    text = None if head is None else _exactly(end, _LENGTH.unpack(head)[0])
    return None if text is None else msgspec.msgpack.decode(text, type=reads)


def _exactly(end: socket.socket, count: int) -> bytes | None:
    found = bytearray()
    while len(found) < count:
        chunk = end.recv(count - len(found))
        if not chunk:
            return None
        found += chunk
    return bytes(found)
