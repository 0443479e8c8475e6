"""The stage of the crash tests: one forking child for each process that runs tests."""

from collections.abc import Callable, Iterator
from functools import cache

import pytest

from tests.crash.stage import Rehearsal, Stage
from tests.support.children import Child


def _serve_lives() -> None:
    from tests.crash.stage import serve_lives

    serve_lives()


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Child(_serve_lives) as child:
        yield Stage(child)


@pytest.fixture(scope="module")
def rehearsed(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Rehearsal]:
    """Plays each life once to its end, to know what a killed one must look like."""

    @cache
    def rehearse(life: str) -> Rehearsal:
        return stage.rehearse(life, tmp_path_factory.mktemp("rehearsal") / "work.db")

    return rehearse
