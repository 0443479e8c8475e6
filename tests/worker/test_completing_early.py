"""A handler that completes its task itself, together with statements on the user's own tables."""

from contextlib import closing
from pathlib import Path
from typing import Any

from outlast import Outlast
from tests.engine import isolated_jobs
from tests.store.hand import Hand
from tests.support.foreign import foreign_rows

ENTRY = "INSERT INTO paid VALUES (?)"


def test_own_statements_commit_with_the_completion_or_not_at_all(tmp_path: Path) -> None:
    """Guards exactly-once effects in the store's own file, whatever the handler does next."""
    path = tmp_path / "work.db"
    with Outlast(path) as app:
        with closing(Hand(path)) as hand:
            hand.run("CREATE TABLE paid (invoice TEXT)")

        @app.task(max_retries=0)
        def pay(ctx: Any, invoice: str) -> str:
            ctx.complete(f"paid {invoice}", also=[(ENTRY, (invoice,))])
            raise RuntimeError("too late to matter")

        @app.task(max_retries=0)
        async def pay_soon(ctx: Any, invoice: str) -> str:
            await ctx.acomplete("paid", also=[(ENTRY, (invoice,))])
            return "not this"

        @app.task(max_retries=0)
        def misspell(ctx: Any) -> None:
            ctx.complete("paid", also=[("INSERT INTO nowhere VALUES (1)", ())])

        app.functions.register(isolated_jobs.pay_apart)
        tasks = [
            pay.enqueue("a"),
            pay_soon.enqueue("b"),
            misspell.enqueue(),
            app.enqueue("pay_apart", {"invoice": "c"}),
        ]
        assert app.worker().run(until_empty=True).lost == 0
        found = [app.get(task.id) for task in tasks]
        assert [task.status for task in found] == ["completed", "completed", "failed", "completed"]
        assert [task.result for task in found] == ["paid a", "paid", None, "paid apart"]
    assert foreign_rows(path, "SELECT invoice FROM paid ORDER BY 1") == [["a"], ["b"], ["c"]]
