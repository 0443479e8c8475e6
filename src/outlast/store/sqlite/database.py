"""All connections of one opening of one file: the writer, the readers, and what guards them."""

from contextlib import ExitStack

from outlast.settings import Settings
from outlast.store.sqlite import migrate
from outlast.store.sqlite.connect import connect, ensure_wal
from outlast.store.sqlite.file_guard import FileGuard
from outlast.store.sqlite.readers import Readers
from outlast.store.sqlite.side_folder.side_folder import SideFolder
from outlast.store.sqlite.user_statements import CallersStatements
from outlast.store.sqlite.write_gate import WriteGate
from outlast.store.sqlite.writer import Writer

# Taken page by page as it is needed; a batch must find its pages where it left them.
WRITER_CACHE_KIB = 32 << 10


class Database:
    """Rebuilt as a whole when the process has lost its locks."""

    def __init__(
        self,
        folder: SideFolder,
        gate: WriteGate,
        settings: Settings,
        guard: FileGuard | None = None,
    ) -> None:
        """A store that connects anew passes its guard on, which never lets go in between."""
        path = folder.database
        self.guard = guard or FileGuard(path, folder.openers)
        with ExitStack() as undo:
            connection = connect(path, settings.synchronous)
            undo.callback(connection.close)
            ensure_wal(connection, path, is_new=False)
            # The first read of the file; whoever changed it since it was prepared is found out.
            migrate.pending(connection)
            connection.pragma("cache_size", -WRITER_CACHE_KIB)
            connection.pragma("journal_size_limit", settings.wal_limit_bytes)
            undo.callback(self.guard.release)
            self.guard.arm()
            limits_seconds = (settings.stall_seconds, settings.write_timeout_seconds)
            self.writer = Writer(connection, path, self.guard, gate, limits_seconds)
            self.readers = Readers(path, settings.synchronous)
            self.callers = CallersStatements(connection)
            undo.pop_all()

    def close(self) -> None:
        """Close every connection and let go of the files."""
        self.disconnect()
        self.guard.release()

    def disconnect(self) -> None:
        """Close every connection."""
        self.readers.close()
        self.writer.close()

    def quiesce(self, timeout_seconds: float) -> bool:
        """Before a fork: no operation under way, and none begun until resume()."""
        quiet = self.writer.quiesce(timeout_seconds)
        return self.readers.quiesce(timeout_seconds) and quiet

    def resume(self) -> None:
        """After the fork, in the parent: go on."""
        try:
            self.readers.resume()
        finally:
            self.writer.resume()

    def abandon(self) -> None:
        """In a forked child: let go of the inherited connections."""
        self.writer.abandon()
        self.readers.abandon()
        self.guard.abandon()
