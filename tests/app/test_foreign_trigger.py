"""A trigger of another program that swallows rows: nothing is acknowledged that is not stored."""

import asyncio
from pathlib import Path

import pytest

from outlast import AsyncOutlast, OutcomeUnknown, Outlast, StoreError
from tests.support.foreign import foreign_rows

SWALLOW = (
    "CREATE TRIGGER swallow BEFORE INSERT ON tasks WHEN new.kind = 'odd'"
    " BEGIN SELECT RAISE(IGNORE); END"
)


@pytest.fixture
def swallowing(app: Outlast, database: Path) -> Outlast:
    app.open()
    foreign_rows(database, SWALLOW)
    return app


@pytest.mark.parametrize("size", [1, 2, 1000])
def test_an_enqueue_whose_row_is_swallowed_is_refused(swallowing: Outlast, size: int) -> None:
    with pytest.raises(StoreError, match="trigger of another program"):
        swallowing.enqueue_many("odd", range(size))
    with pytest.raises(StoreError, match="trigger of another program"):
        swallowing.enqueue("odd", "x" * 10_000)
    assert sum(swallowing.counts().values()) == 0
    assert swallowing.enqueue("work").status == "pending"


def test_who_shares_a_statement_with_it_is_told_the_truth(
    swallowing: Outlast, database: Path
) -> None:
    """What became of the others can be asked; nobody is told of a row that is not there."""

    async def scene() -> None:
        async with AsyncOutlast(database) as aio:
            names = [f"{kind} {n}" for n in range(20) for kind in ("odd", "work")]
            calls = [aio.enqueue(name.split()[0], id=name) for name in names]
            told = await asyncio.gather(*calls, return_exceptions=True)
            for name, answer in zip(names, told, strict=True):
                is_there = await aio.resolve(name) is not None
                assert is_there == name.startswith("work") or isinstance(answer, StoreError)
                if not isinstance(answer, OutcomeUnknown):
                    assert is_there == (not isinstance(answer, BaseException))

    asyncio.run(scene())
