"""Sessions as the file itself tells of them: the mirror of the markers, for these may be lost.

Each opening to serve is on record before anything is served, and a clean stop ends its session in
the transaction that leaves. So one that never ended is a crash to whoever has the store to itself.
"""

import apsw

from outlast.domain.worker import PreviousStop
from outlast.host import processes
from outlast.settings import Settings
from outlast.store.records import SESSIONS_FROM
from outlast.store.sqlite.side_folder.session_marker import Left, Session
from outlast.store.sqlite.transaction import SqliteTransaction


def told_by_the_file(connection: apsw.Connection, settings: Settings, left: Left) -> Left:
    """How the store was left, markers and file taken together; only ever under the exclusive lock.

    On a network filesystem that lock may not reach other hosts: their sessions are not judged here.
    """
    host = processes.this_process().host if settings.allow_network_filesystem else None
    try:
        values = {"key": SESSIONS_FROM, "host": host}
        rows = SqliteTransaction(connection).rows("unended_sessions", values)
    except apsw.CorruptError:
        # Whatever the reason, the file is to be checked; the check says what is wrong with it.
        return left._replace(stop=PreviousStop.UNCLEAN)
    return left.joined_by(Session(*row) for row in rows)
