"""Session markers as a crash or a stranger may leave them: they inform and never decide."""

import random
from collections.abc import Callable
from pathlib import Path

SUFFIX = ".session"

_FOREIGN = b'{"incarnation": "of another", "pid": 1, "host": "elsewhere"}'

REMAINS: tuple[Callable[[bytes], bytes | None], ...] = (
    lambda content: content,
    lambda content: None,
    lambda content: content[: len(content) // 2],
    lambda content: bytes(len(content)),
    lambda content: b"",
    lambda content: _FOREIGN,
)
"""What may stay of one: all of it, nothing, half, zeros, its name alone, or somebody else's."""


_ALIKE = 0.5


def spoil(database: Path, chance: random.Random) -> None:
    """Let something become of every marker of a store; sometimes one is there that nobody set."""
    folder = database.with_name(f"{database.name}-outlast") / "sessions"
    alike = chance.choice(REMAINS) if chance.random() < _ALIKE else None
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        content = (alike or chance.choice(REMAINS))(path.read_bytes())
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
    if chance.random() < 0.2:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"nobody{SUFFIX}").write_bytes(chance.choice((b"", _FOREIGN, b"\xff\x00")))
