from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast import Outlast, Settings
from outlast.app.lease import Lease
from outlast.testing import ManualClock
from outlast_lab.experiments.model.process import StandInProcess

pytestmark = pytest.mark.slow

TASKS = ("t0", "t1", "t2")

Step = tuple[str, str] | str

writes = st.tuples(st.sampled_from(TASKS), st.sampled_from(["iteration_end", "llm_response"]))
programs = st.lists(writes | st.sampled_from(["close", "crash"]), max_size=30)


@settings(max_examples=40, deadline=None, print_blob=True)
@given(programs)
def test_checkpoints_of_a_task_count_up_without_gaps_through_releases_and_crashes(
    steps: list[Step],
) -> None:
    with TemporaryDirectory(prefix="outlast-checkpoints-") as folder:
        path = Path(folder) / "work.db"
        settings = Settings(max_recovery_attempts=1000, synchronous="normal")
        process = StandInProcess(path, settings, ManualClock())
        try:
            written = _write_all(process, steps)
            app = process.outlast()
            for task_id in TASKS:
                found = app.checkpoints(task_id)
                assert [one.sequence_number for one in found] == list(range(1, len(found) + 1))
                assert [(one.type, one.data) for one in found] == written[task_id]
        finally:
            process.crash()


def _write_all(process: StandInProcess, steps: list[Step]) -> dict[str, list[tuple[str, int]]]:
    written: dict[str, list[tuple[str, int]]] = {task_id: [] for task_id in TASKS}
    app = process.outlast()
    for task_id in TASKS:
        app.enqueue("write", id=task_id)
    leases = _claim_all(app)
    for n, step in enumerate(steps):
        if isinstance(step, tuple):
            task_id, kind = step
            written[task_id].append((kind, n))
            made = leases[task_id].checkpoint(kind, n)
            assert made.sequence_number == len(written[task_id])
        elif step == "crash":
            process.crash()
            app = process.outlast()
            leases = _claim_all(app)
        else:
            app.close()
            leases = _claim_all(app)
    return written


def _claim_all(app: Outlast) -> dict[str, Lease]:
    return {lease.task_id: lease for lease in app.claim("w1", limit=len(TASKS))}
