"""Sizes of memory as people write them: bytes, or text such as "512MiB"."""

import re

from outlast.domain.escaping import shown
from outlast.errors import InvalidInput

Size = int | str

_UNIT_BYTES = {
    "B": 1,
    "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
}  # fmt: skip
_TEXT = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(B|[KMGT]i?B)")
LARGEST_BYTES = 1 << 50


def size_bytes(value: Size, name: str) -> int:
    """The size in whole bytes; `name` is the argument it came from."""
    if isinstance(value, str):
        found = _TEXT.fullmatch(value)
        if not found:
            raise InvalidInput(f'{name} must look like "512MiB" or "2GB", not {shown(value)}')
        size = round(float(found[1]) * _UNIT_BYTES[found[2]])
    elif type(value) is int:
        size = value
    else:
        raise InvalidInput(f'{name} must be bytes or text like "512MiB", not {shown(value)}')
    if not 0 < size <= LARGEST_BYTES:
        raise InvalidInput(f"{name} must be between one byte and a pebibyte, not {shown(value)}")
    return size


def in_bytes(size: int) -> str:
    """A size as people read it, such as 3.9 GiB."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size >= _UNIT_BYTES[unit]:
            return f"{size / _UNIT_BYTES[unit]:.1f} {unit}"
    return f"{size} B"
