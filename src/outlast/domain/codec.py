"""Values to JSON text and back, within limits, and the checksums kept beside the text."""

import dataclasses
import math
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any
from zlib import crc32

from outlast.errors import PayloadRejected

MAX_PAYLOAD_BYTES = 1 << 20
MAX_DEPTH = 64

# A character takes four bytes at most.
_SURELY_SMALL = MAX_PAYLOAD_BYTES // 4

# What opens so many brackets closes them, too.
_SURELY_FLAT = 2 * MAX_DEPTH

# What the encoder, or the decoder of what it made, says of a value it cannot carry; the errors of
# msgspec are ValueErrors.
_REFUSALS = (RecursionError, TypeError, ValueError, OverflowError)

Encode = Callable[[Any], bytes]
Decode = Callable[[bytes | str], Any]


# Importing msgspec takes a fifth of what making an Outlast object may take, and opening a store
# imports it anyway: so it is imported by the functions that use it.
@cache
def _coders() -> tuple[Encode, Decode]:
    from msgspec.json import Decoder, Encoder

    return Encoder().encode, Decoder().decode


@cache
def _line_coders() -> tuple[Encode, Decode]:
    from msgspec.json import Decoder, Encoder

    return Encoder().encode_lines, Decoder().decode_lines


@cache
def _canonical() -> Encode:
    from msgspec.json import Encoder

    return Encoder(order="sorted").encode


def encode(value: Any, name: str, max_bytes: int = MAX_PAYLOAD_BYTES) -> str:
    """The value as JSON text; refuses what JSON, or the limits, cannot hold."""
    encode_value, decode_value = _coders()
    try:
        raw = encode_value(value)
        # What comes back equal was plain JSON; only the rest needs a closer look.
        is_plain = len(raw) <= max_bytes and decode_value(raw) == value
        if is_plain and len(raw) <= _SURELY_FLAT:
            return raw.decode()
    except RecursionError as error:
        raise PayloadRejected(f"{name} is nested too deeply, or contains itself") from error
    except _REFUSALS as error:
        raise PayloadRejected(f"{name} is not storable as JSON: {error}") from error
    if len(raw) > max_bytes:
        raise PayloadRejected(
            f"{name} takes {len(raw)} bytes as JSON and at most {max_bytes} are allowed;"
            " store the data elsewhere and pass a reference"
        )
    if not is_plain:
        _refuse_silent_loss(value, name)
    _refuse_depth(raw, name)
    return raw.decode()


def encode_plain(values: list[Any]) -> list[str] | None:
    """The texts of many values at once; None if each needs a look of its own."""
    encode_lines, decode_lines = _line_coders()
    try:
        raw = encode_lines(values)
        is_plain = decode_lines(raw) == values
    except _REFUSALS:
        return None
    # An encoded line break is no line break, so each line is one value.
    texts = raw.decode().split("\n")
    texts.pop()
    if not is_plain or len(texts) != len(values):
        return None
    longest = max(map(len, texts))
    if longest > _SURELY_SMALL:
        return None
    is_flat = longest <= _SURELY_FLAT or all(
        text.count("[") + text.count("{") <= MAX_DEPTH for text in texts
    )
    return texts if is_flat else None


def decode(text: str) -> Any:
    """The value behind stored JSON text."""
    return _coders()[1](text)


def _refuse_silent_loss(root: Any, name: str) -> None:
    """The encoder would turn NaN into null, bytes into base64, and merge the keys 1 and "1"."""
    waiting = [root]
    while waiting:
        value = waiting.pop()
        if isinstance(value, float) and not math.isfinite(value):
            raise PayloadRejected(f"{name} holds NaN or an infinity, which JSON cannot carry")
        if isinstance(value, bytes | bytearray | memoryview | set | frozenset):
            raise PayloadRejected(
                f"{name} holds a {type(value).__name__}, which JSON cannot carry;"
                " convert it to text or a list first"
            )
        if isinstance(value, dict) and not all(isinstance(key, str) for key in value):
            raise PayloadRejected(f"{name} has a key that is not text, which JSON cannot carry")
        waiting.extend(_parts(value))


def _parts(value: Any) -> list[Any]:
    import msgspec

    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, msgspec.Struct):
        return list(msgspec.structs.asdict(value).values())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name) for field in dataclasses.fields(value)]
    if isinstance(value, str | int | float) or value is None:
        return []
    plain = msgspec.to_builtins(value)
    return [plain] if isinstance(plain, float | dict | list) else []


def _refuse_depth(raw: bytes, name: str) -> None:
    """Fewer brackets than the limit cannot nest deeper, which spares nearly every text the walk."""
    if raw.count(b"[") + raw.count(b"{") <= MAX_DEPTH:
        return
    layer = [_coders()[1](raw)]
    for _ in range(MAX_DEPTH + 1):
        layer = [child for value in layer for child in _parts(value)]
        if not layer:
            return
    raise PayloadRejected(f"{name} is nested deeper than {MAX_DEPTH} levels")


def encode_payload(task_id: str, kind: str, payload: Any, name: str) -> tuple[str | None, int]:
    """The text of a payload, if there is any, and the checksum of its task."""
    if payload is None:
        return None, payload_sum(task_id, kind, None)
    text = None
    encode_value, decode_value = _coders()
    try:
        # What `encode` asks of most values, in one piece with the sum.
        raw = encode_value(payload)
        if len(raw) <= _SURELY_FLAT and decode_value(raw) == payload:
            text = raw.decode()
    except _REFUSALS:
        pass
    if text is None:
        text = encode(payload, name)
    return text, crc32(f"{task_id}\0{kind}\0{text}".encode())


def payload_sum(task_id: str, kind: str, payload: str | None) -> int:
    """A checksum over what never changes in a task, to find a flipped byte on disk."""
    return crc32(f"{task_id}\0{kind}\0{payload}".encode())


def payload_sums(task_ids: Iterable[str], kind: str, payloads: Iterable[str | None]) -> list[int]:
    """The same for many tasks of one kind."""
    middle = f"\0{kind}\0"
    return [
        crc32(f"{task_id}{middle}{payload}".encode())
        for task_id, payload in zip(task_ids, payloads, strict=True)
    ]


def result_sum(task_id: str, result: str | None) -> int:
    """A checksum over a task's result, written once when it settles."""
    return crc32(f"{task_id}\0{result}".encode())


def snapshot_sum(snapshot: str) -> str:
    """A checksum over a checkpoint's snapshot."""
    return _sha256(snapshot.encode())


def request_hash(kind: str, payload: Any) -> str:
    """What an idempotency key stands for: the canonical JSON of kind and payload."""
    return _sha256(_canonical()([kind, payload]))


def _sha256(data: bytes) -> str:
    # It loads OpenSSL, which programs that only define tasks do not need.
    from hashlib import sha256

    return "sha256:" + sha256(data).hexdigest()
