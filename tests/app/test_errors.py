import inspect
import re
from pathlib import Path

import pytest

import outlast
from outlast import (
    DatabaseError,
    IdempotencyConflict,
    InvalidInput,
    LeaseInherited,
    LeaseLost,
    LockHeld,
    MigrationRefused,
    OutcomeUnknown,
    Outlast,
    OutlastError,
    PayloadRejected,
    RecoveryFailed,
    SchemaError,
    SchemaNewer,
    StoreError,
    TaskNotFound,
    errors,
)
from tests.support.foreign import foreign_rows


def _all_errors() -> list[type[OutlastError]]:
    found = [one for one in vars(errors).values() if inspect.isclass(one)]
    ours = [one for one in found if one.__module__ == errors.__name__]
    family = [one for one in ours if issubclass(one, OutlastError)]
    assert len(family) == len(ours)
    return family


@pytest.mark.proves("API-05")
def test_every_error_has_one_root_and_is_public() -> None:
    assert len(_all_errors()) > 20
    for error in _all_errors():
        assert getattr(outlast, error.__name__) is error
        assert error.__name__ in outlast.__all__
    assert issubclass(OutlastError, Exception)


@pytest.mark.proves("API-05")
def test_the_family_is_complete_and_ordered() -> None:
    direct = (IdempotencyConflict, LeaseLost, LockHeld, TaskNotFound, StoreError, InvalidInput)
    assert {error.__base__ for error in direct} == {OutlastError}
    for store_error in (RecoveryFailed, DatabaseError, SchemaError, OutcomeUnknown):
        assert store_error.__base__ is StoreError
    assert issubclass(SchemaNewer, SchemaError)
    assert issubclass(MigrationRefused, SchemaError)
    assert issubclass(LeaseInherited, LeaseLost)
    assert issubclass(PayloadRejected, InvalidInput)
    assert issubclass(InvalidInput, ValueError)
    assert issubclass(TaskNotFound, LookupError)


@pytest.mark.proves("API-05")
def test_the_tree_in_the_docstring_is_the_tree_of_the_classes() -> None:
    drawn: dict[str, str | None] = {}
    branch: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"^([│ ]*(?:[├└]── )?)([A-Z]\w+)(\s{2,}|$)", line)
        if match:
            depth = len(match[1]) // 4
            branch[depth:] = [match[2]]
            drawn[match[2]] = branch[depth - 1] if depth else None
    real = {
        error.__name__: error.__base__.__name__ if error is not OutlastError else None
        for error in _all_errors()
        if error.__base__ is not None
    }
    assert drawn == real


@pytest.mark.proves("API-05")
def test_an_error_of_the_engine_names_what_was_being_done(app: Outlast, database: Path) -> None:
    app.enqueue("work", id="t1")
    app.claim("w", lease="1s")
    app.close()
    foreign_rows(
        database,
        "CREATE TRIGGER in_the_way BEFORE UPDATE ON tasks BEGIN SELECT RAISE(ABORT, 'no'); END",
    )
    with pytest.raises(DatabaseError) as refused:
        app.claim("w")
    assert refused.value.context == "claim"
    assert str(refused.value).startswith("claim failed: ")
    assert refused.value.__cause__ is not None


def test_an_error_carries_what_a_program_needs_to_act() -> None:
    many = [f"t{n}" for n in range(7)]
    assert LeaseLost(many).task_ids == tuple(many)
    assert "t4 …" in str(LeaseLost(many))
    assert "t5" not in str(LeaseLost(many))
    assert LeaseLost("one").task_ids == ("one",)
    assert OutcomeUnknown(["a"], "why").task_ids == ("a",)
    assert "resolve(id)" in str(OutcomeUnknown(["a"], "why"))
    assert TaskNotFound("x").task_id == "x"
    assert (IdempotencyConflict("k", "t").key, IdempotencyConflict("k", "t").task_id) == ("k", "t")


@pytest.mark.proves("API-05")
def test_a_recovery_that_fails_is_wrapped_with_what_it_was_about(
    app: Outlast, database: Path
) -> None:
    app.enqueue("work", id="t1", idempotency_key="k")
    (lease,) = app.claim("w")
    lease.complete()
    app.close()
    foreign_rows(database, "UPDATE task_keys SET expires_at = 1")
    foreign_rows(
        database,
        "CREATE TRIGGER in_the_way BEFORE DELETE ON task_keys BEGIN SELECT RAISE(ABORT, 'no'); END",
    )
    with pytest.raises(RecoveryFailed, match=r"work\.db could not be made ready: purge failed"):
        app.open()
    foreign_rows(database, "DROP TRIGGER in_the_way")
    assert app.open().counts()["completed"] == 1
