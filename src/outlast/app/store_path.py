"""Where a store lies: the path behind what the user gave."""

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from outlast.domain.escaping import shown
from outlast.errors import InvalidInput

# What SQLite and we ourselves put beside a database: a store of that name would be lost.
_BESIDE_A_DATABASE = ("-wal", "-shm", "-journal", "-outlast")


def database_path(target: str | os.PathLike[str]) -> Path:
    """The absolute path behind a path or an sqlite URL; fixed now, whatever the cwd is later."""
    if not isinstance(target, str | os.PathLike) or not os.fspath(target):
        raise InvalidInput(f"the store must be a path or an sqlite:/// URL, not {shown(target)}")
    text = os.fspath(target)
    if "\0" in text or text.encode(errors="replace").decode() != text:
        raise InvalidInput(f"the store's path must be proper text, not {shown(text)}")
    if text.startswith("file:"):
        raise InvalidInput("give a path or sqlite:///path; SQLite's own file: URLs are not taken")
    if text == ":memory:":
        raise InvalidInput("a durable queue needs a file; give a path instead of :memory:")
    if "://" in text:
        parts = urlsplit(text)
        if parts.scheme != "sqlite" or parts.netloc or parts.query or parts.fragment:
            raise InvalidInput(f"{parts.scheme}:// is not a store; give a path or sqlite:///path")
        text = unquote(parts.path.removeprefix("/"))
    path = Path(text).expanduser().absolute()
    for beside in (path, path.parent):
        for ending in _BESIDE_A_DATABASE:
            whose = str(beside).removesuffix(ending)
            if whose != str(beside) and os.path.isfile(whose):
                raise InvalidInput(f"{path} belongs to the database {whose}; name that itself")
    return path
