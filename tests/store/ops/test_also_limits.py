from typing import Any

import pytest

from outlast import InvalidInput, Outlast, StatementRefused
from tests.store.hand import Hand, everything

WRONG_ERROR = {
    "insert or rollback": "INSERT OR ROLLBACK INTO orders VALUES (1, 'twin')",
    "a trigger of theirs that rolls back": "INSERT INTO rolling VALUES (1)",
    "vacuum": "VACUUM",
    "vacuum into": "VACUUM INTO 'elsewhere.db'",
    "load_extension": "SELECT load_extension('x')",
    "two statements": "INSERT INTO orders VALUES (5, 'a'); INSERT INTO orders VALUES (6, 'b')",
}


@pytest.mark.parametrize("what", WRONG_ERROR)
def test_these_are_refused_too(app: Outlast, shop: Hand, what: str) -> None:
    shop.run("CREATE TABLE rolling (a)")
    shop.run("CREATE TRIGGER back AFTER INSERT ON rolling BEGIN SELECT RAISE(ROLLBACK, 'no'); END")
    app.enqueue("k", id="t")
    (lease,) = app.claim("w")
    before = everything(shop)
    also: list[Any] = [("INSERT INTO orders VALUES (1, 'fine')", ()), (WRONG_ERROR[what], ())]
    with pytest.raises(StatementRefused):
        app.enqueue("k", also=also)
    with pytest.raises(StatementRefused):
        lease.complete(also=also)
    assert everything(shop) == before
    assert lease.complete()


@pytest.mark.parametrize("values", [(1 << 70, "x"), (1,), (1, 2, 3)])
def test_values_that_do_not_fit_their_statement_are_one_of_our_errors(
    app: Outlast,
    shop: Hand,
    values: Any,
) -> None:
    with pytest.raises(InvalidInput, match="values"):
        app.enqueue("k", also=[("INSERT INTO orders VALUES (?, ?)", values)])
    assert app.counts()["pending"] == 1


def test_an_engine_error_that_quotes_a_value_does_not_leak_it(
    app: Outlast,
    shop: Hand,
) -> None:
    with pytest.raises(Exception, match="statement") as caught:
        app.enqueue(
            "k", also=[("INSERT INTO orders VALUES (1, json_extract('{}', ?))", ("hunter2",))]
        )
    assert "hunter2" not in str(caught.value)
