"""How long the log is: the engine keeps the number in the log's index, which all processes share.

Read there it costs next to nothing, and other processes' commits count as well. The engine's own
hook would tell it at each commit, and have to wait for the interpreter's lock each time.
"""

from collections.abc import Sequence

import apsw

from outlast.store.sqlite.words import mapped_index

# Words of the index's header, as the description of the file format has them.
_VERSION, FRAMES = 0, 4
_KNOWN_VERSION = 3_007_000


def log_words(index: int | None, connection: apsw.Connection) -> Sequence[int]:
    """What has the number of frames in the log at FRAMES, whenever it is looked at.

    `index` is a descriptor of the index that stays open. Where it cannot be read, the words are
    those of a list that the hook writes.
    """
    mapped = None if index is None else mapped_index(index, FRAMES + 1)
    if mapped is not None and mapped[_VERSION] == _KNOWN_VERSION:
        return mapped
    told = [0] * (FRAMES + 1)

    def tell(sqlite: apsw.Connection, name: str, frames: int) -> int:
        told[FRAMES] = frames
        return apsw.SQLITE_OK

    connection.set_wal_hook(tell)
    return told
