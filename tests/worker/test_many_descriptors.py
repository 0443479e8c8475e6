"""A worker in a process that has more files open than select() can count."""

import os
import resource
from collections.abc import Iterator

import pytest

from outlast import Outlast

MOST_FOR_SELECT = 1024


@pytest.fixture
def crowd() -> Iterator[None]:
    """So many open descriptors that every new one has a high number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * MOST_FOR_SELECT
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(wanted, hard)), hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(MOST_FOR_SELECT + 50)]
    yield
    for descriptor in opened:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("crowd")
def test_a_worker_runs_beside_thousands_of_open_files(live: Outlast) -> None:
    @live.task
    def work(n: int) -> int:
        return n

    work.enqueue_many(range(20))
    assert live.worker().run(until_empty=True).completed == 20
