"""A fork inside a statement that is a transaction by itself, of which SQLite says nothing."""

from pathlib import Path

from tests.support.children import Child
from tests.support.foreign import assert_sound, foreign_statuses


def _forks_inside_a_statement(path: str) -> None:
    import os

    from outlast import Outlast, StoreError
    from outlast.store import opening
    from outlast.store.sqlite.file_guard import FileGuard
    from tests.store.hand import engine_of
    from tests.support.childside import say

    opening.FORK_PATIENCE_SECONDS = 0.05
    app = Outlast(path)
    app.enqueue("work", id="first")
    connection = engine_of(app)._database.writer.connection
    stand = FileGuard.locks_stand

    def fork_here(guard: FileGuard) -> bool:
        FileGuard.locks_stand = stand  # type: ignore[method-assign]
        pid = os.fork()
        if pid == 0:
            try:
                app.enqueue("work", id="of the child")
            except StoreError as error:
                say(str(error))
            app.close()
            os._exit(0)
        say([os.waitpid(pid, 0)[1], connection.in_transaction])
        return stand(guard)

    FileGuard.locks_stand = fork_here  # type: ignore[assignment, method-assign]
    say(app.enqueue("work", id="under way").id)
    say(app.enqueue("work", id="next").id)


def test_a_fork_inside_a_lone_statement_is_not_taken_for_one_between_operations(
    database: Path,
) -> None:
    """Guards against a child that closes its parent's connection in the middle of a commit."""
    with Child(_forks_inside_a_statement, database) as child:
        refusal, *rest = child.hear_all()
        assert "in the middle of an operation when this process was forked" in refusal
        assert rest == [[0, False], "under way", "next"], child.error()
    assert set(foreign_statuses(database)) == {"first", "under way", "next"}
    assert_sound(database)
