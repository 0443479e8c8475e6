"""How often a worker beats."""

import pytest

from outlast import Outlast, Settings
from outlast.worker.worker import Worker
from tests.worker.conftest import MakeApp
from tests.worker.shift import Shift, eventually


def _beat_ms(worker: Worker, app: Outlast) -> int:
    return worker._terms(app._handle.serve(), ("work",), until_empty=True).beat_ms


@pytest.mark.proves("HB-02")
def test_the_interval_is_thirty_seconds_or_what_it_is_set_to(make_live: MakeApp) -> None:
    usual, other = make_live(), make_live(heartbeat_interval_seconds=7)
    for app in (usual, other):

        @app.task(name="work")
        def work() -> None: ...

    assert Settings().heartbeat.interval_ms == 30_000
    assert _beat_ms(usual.worker(), usual) == 30_000
    assert _beat_ms(other.worker(), other) == 7_000


@pytest.mark.slow
@pytest.mark.proves("HB-02")
def test_a_short_interval_is_kept_by_a_worker_at_work(make_live: MakeApp) -> None:
    app = make_live(heartbeat_interval_seconds=0.1)

    @app.task
    def work() -> None: ...

    with Shift(app.worker(name="w")):
        (first,) = eventually(app.workers)
        eventually(lambda: app.workers()[0].beat_at > first.beat_at)
