"""Named subscribers as the store sees them: a durable place, and one deliverer at a time."""

import fcntl
import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakSet

from outlast.clock import Instant
from outlast.domain.events import Cursor, Place
from outlast.errors import StoreUnwritable
from outlast.store.ops import cursors, stream
from outlast.store.sqlite.serving import Serving
from outlast.store.sqlite.transaction import Transaction


class Turn:
    """The right to deliver under a name; the kernel takes it back when this process ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptors = [descriptor]

    def close(self) -> None:
        """Let the next one deliver. In a forked child this leaves the parent its turn."""
        # Taken out in one step, so that nobody closes a number that is another file's by now; a
        # lock might be inherited locked.
        with suppress(IndexError):
            os.close(self._descriptors.pop())


class Subscribing(Serving):
    """The part of the store that keeps the places of named subscribers."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._turns: WeakSet[Turn] = WeakSet()

    def begin_cursor(self, name: str, start: Cursor | None, now: Instant) -> Place:
        """The place of a name; a new one begins at `start`, or behind all there is."""

        def operation(tx: Transaction) -> Place:
            return cursors.begin(tx, name, stream.end(tx) if start is None else start, now)

        return self._write("cursor", operation)

    def move_cursor(self, name: str, to: Place, now: Instant) -> bool:
        """Store that all up to a place is delivered; False when it is further, gone, or new."""
        return self._write("cursor", lambda tx: cursors.move(tx, name, to, now))

    def delete_cursor(self, name: str) -> bool:
        """Forget a name and its place; False when there is none."""
        return self._write("cursor", lambda tx: tx.run("delete_cursor", {"name": name})) == 1

    def turn(self, name: str) -> Turn | None:
        """The right to deliver under a name, or None while another process, or thread, has it."""
        digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:32]
        path = self._folder.subscribers / f"{digest}.lock"
        try:
            self._folder.make_folder(self._folder.subscribers)
            descriptor = self._folder.open_file(path)
        except OSError as error:
            raise StoreUnwritable(
                f"nothing can be written in {self._folder.path} ({error.strerror});"
                " give this user write permission"
            ) from error
        turn = Turn(descriptor)
        # Known before it is locked: a child that is forked now must find it.
        self._turns.add(turn)
        if _is_locked(descriptor, path):
            return turn
        turn.close()
        return None

    def abandon(self) -> None:
        """In a forked child: what it inherited must not outlive the parent's turn."""
        super().abandon()
        for turn in list(self._turns):
            turn.close()


def _is_locked(descriptor: int, path: Path) -> bool:
    """Whether the file is ours now, and still the one that others will find under its name."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except (BlockingIOError, FileNotFoundError):
        return False
