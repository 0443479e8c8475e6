"""The short way of a caller with nobody beside it: one statement, which is a transaction by itself.

It asks what the usual way asks, and has the writer to itself while it is at work: who comes
meanwhile leads, as if nobody did, and finds the writer taken. It is written in few pieces because
after each wait for the disk the processor's caches are cold: a function's call then takes as long
as what most of them do. Whatever is not as usual is left to those who know.
"""

from collections.abc import Callable
from time import monotonic

import apsw

from outlast.errors import OutcomeUnknown, SecondSqliteCopy, StoreReplaced
from outlast.host import probe_points
from outlast.store.new_tasks import NewTask
from outlast.store.ops.tasks import ADD_ONE, SURELY_INLINE
from outlast.store.sqlite.database import Database
from outlast.store.sqlite.file_guard import FileGuard
from outlast.store.sqlite.gate import WriteGate
from outlast.store.sqlite.group import GroupCommit
from outlast.store.sqlite.log_length import FRAMES
from outlast.store.sqlite.operation import LOOKING_FOR_WORK
from outlast.store.sqlite.wakeups.notify import Wakeups
from outlast.store.sqlite.wal import Flusher
from outlast.store.sqlite.words import EARS, GATE
from outlast.store.sqlite.writer import Writer

# Places of a NewTask, which is asked here without the detour of its names.
_GROUP, _NOT_BEFORE, _RETRY_OF, _KEY = map(
    NewTask._fields.index, ("group", "not_before_ms", "retry_of", "key")
)


class ShortWay:
    """For a task that is small and due, and has no ties to other rows."""

    def __init__(
        self,
        group: GroupCommit,
        gate: WriteGate,
        wakeups: Wakeups,
        flusher: Flusher,
        reconnect: Callable[[Database], None],
    ) -> None:
        self._group = group
        self._gate = gate
        self._wakeups = wakeups
        self._flusher = flusher
        self._reconnect = reconnect

    def stores(self, task: NewTask, database: Database) -> bool:
        """Store it durably; False: nothing was stored, take the usual way.

        Whoever wants to look on from inside a transaction takes that one as well.
        """
        group, writer, text = self._group, database.writer, task.payload
        if (
            writer.is_storing
            or group.leader is not None
            or group.shared
            or task[_KEY] is not None
            or task[_RETRY_OF] is not None
            or task[_NOT_BEFORE] is not None
            or task[_GROUP] is not None
            or (text is not None and len(text) > SURELY_INLINE)
            or probe_points.is_armed
        ):
            return False
        is_stored = False
        try:
            with writer.mutex:
                try:
                    writer.is_storing = True
                    is_stored = self._commits(task, writer, database.guard)
                    if is_stored:
                        # While nobody can connect anew: the guard would know other files then.
                        database.guard.check_files()
                finally:
                    writer.is_storing = False
        except (SecondSqliteCopy, StoreReplaced) as error:
            self._reconnect(database)
            if is_stored:
                raise OutcomeUnknown([task.id], error) from error
            raise
        wakeups, flusher, words = self._wakeups, self._flusher, self._gate.words
        ears = wakeups.ears
        # Those who wait are told, and a flush that is due is called for; mostly neither is.
        if is_stored and (
            ears.names
            or monotonic() > wakeups.heard_until
            or words is None
            or words[EARS] != ears.word
        ):
            wakeups.tell(LOOKING_FOR_WORK)
        if is_stored and writer.log_words[FRAMES] not in flusher.quiet_pages:
            flusher.look_at(writer)
        return is_stored

    def _commits(self, task: NewTask, writer: Writer, guard: FileGuard) -> bool:
        """Whether the task is stored; a signal's exception is raised, whatever became of it."""
        gate, this = self._gate, writer.nobodys
        words = gate.words
        if writer.is_closed:
            return False
        try:
            # As the gate's own `enter` asks.
            if monotonic() > gate.alone_until or words is None or words[GATE] != gate.word_seen:
                gate.enter()
            if monotonic() > guard.recent_until:
                guard.check_files()
            this.commit_sent = False
            writer.tx.execute(ADD_ONE, task)
            # Without this it is part of a transaction that somebody has left open.
            return this.commit_sent
        except apsw.ProtocolError as error:
            # SQLite tried for long and then wrote nothing; who is stopped is not waited for.
            stalled = writer.stalled()
            if stalled.state:
                raise stalled from error
            return False
        except apsw.Error as error:
            if this.commit_sent:
                raise OutcomeUnknown([task.id], error) from error
            return False
        finally:
            try:
                if gate.is_ours:
                    gate.leave()
            except BaseException:
                # A signal's exception may have struck before it did.
                gate.leave()
                raise
