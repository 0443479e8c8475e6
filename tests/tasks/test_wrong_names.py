"""Names that other queues use: said what they are called here."""

from typing import Any

import pytest

from outlast import InvalidInput, Outlast


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"retries": 5}, "has no option 'retries'; did you mean max_retries\\?"),
        ({"time_out": 5}, "has no option 'time_out'; did you mean timeout\\?"),
        ({"zzz": 5}, "has no option 'zzz'; it takes name, queue, priority, max_retries,"),
    ],
)
def test_an_option_that_is_not_there_names_the_one_that_is_meant(
    app: Outlast, options: dict[str, Any], hint: str
) -> None:
    with pytest.raises(InvalidInput, match=hint):
        app.task(**options)


@pytest.mark.parametrize("name", ["delay", "apply_async", "send", "defer"])
def test_the_verb_of_another_queue_names_ours(app: Outlast, name: str) -> None:
    @app.task
    def greet() -> None: ...

    with pytest.raises(AttributeError, match=f"has no {name}; to store a task it is .enqueue"):
        getattr(greet, name)
    with pytest.raises(AttributeError, match=r"task function greet has no odd$"):
        _ = greet.odd  # type: ignore[attr-defined]
