"""A handler in a process of its own: what goes in, what comes back, what it may ask for."""

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast import Outlast
from outlast.tasks.execute import Ended
from outlast.worker.isolation.child import Line
from outlast.worker.isolation.messages import FromHandler
from outlast.worker.isolation.slot import IsolatedSlot
from tests.support.children import Child
from tests.worker.isolation import isolated_jobs as jobs
from tests.worker.isolation import memory_jobs
from tests.worker.isolation.isolated_stage import Running, attempt, end_of, pids_in


@pytest.fixture
def slot() -> Iterator[IsolatedSlot]:
    made = IsolatedSlot()
    yield made
    made.close()


def test_a_result_comes_back_from_another_process(app: Outlast, slot: IsolatedSlot) -> None:
    ended = end_of(slot, app, jobs.own_pid)
    assert ended.result == str(slot.pid)
    assert slot.pid != os.getpid()
    assert ended.error is None


def test_arguments_and_results_take_the_shapes_their_annotations_give(
    app: Outlast, slot: IsolatedSlot
) -> None:
    ended = end_of(slot, app, jobs.mirrored, point={"x": 1, "y": 2})
    assert ended.result == '{"x":2,"y":1}'


def test_an_async_function_runs_on_a_loop_of_its_own(app: Outlast, slot: IsolatedSlot) -> None:
    assert end_of(slot, app, jobs.add_later, a=1, b=2).result == "3"
    assert end_of(slot, app, jobs.add_later, a=3, b=4).result == "7"


def test_one_process_serves_task_after_task(app: Outlast, slot: IsolatedSlot) -> None:
    pids = {end_of(slot, app, jobs.own_pid).result for _ in range(3)}
    assert len(pids) == 1


def test_arguments_that_do_not_fit_fail_for_good(app: Outlast, slot: IsolatedSlot) -> None:
    ended = end_of(slot, app, jobs.add, a=1, b="two")
    assert ended.error is not None
    assert "must be int" in ended.error
    assert not ended.retryable


def test_an_error_comes_back_with_its_frames_and_without_values(
    app: Outlast, slot: IsolatedSlot
) -> None:
    ended = end_of(slot, app, jobs.fails, message="größer als 京 🙂")
    assert ended.error is not None
    first, *frames = ended.error.splitlines()
    assert first == "ValueError: größer als 京 🙂"
    assert [line.split(":")[0] for line in frames] == ["  in fails (isolated_jobs.py"]
    assert "local value" not in ended.error
    assert ended.retryable
    assert ended.exit_signal is None


def test_an_error_that_is_no_unicode_is_escaped(app: Outlast, slot: IsolatedSlot) -> None:
    ended = end_of(slot, app, jobs.fails_with_half_a_character)
    assert ended.error is not None
    assert ended.error.startswith(r"ValueError: half a character: \udce9")


def test_a_huge_message_is_cut_and_its_length_told(app: Outlast, slot: IsolatedSlot) -> None:
    ended = end_of(slot, app, jobs.fails, message="é" * 500_000)
    assert ended.error is not None
    assert len(ended.error) < 5_000
    assert "500000 characters" in ended.error


def test_an_error_that_cannot_be_put_into_words_is_still_an_error(
    app: Outlast, slot: IsolatedSlot
) -> None:
    ended = end_of(slot, app, jobs.fails_without_words)
    assert ended.error is not None
    assert ended.exit_signal is None
    assert end_of(slot, app, jobs.add, a=1, b=2).result == "3"


def test_a_permanent_error_is_not_tried_again(app: Outlast, slot: IsolatedSlot) -> None:
    ended = end_of(slot, app, jobs.fails_for_good)
    assert ended.error is not None
    assert ended.error.startswith("PermanentError: never again")
    assert not ended.retryable


@pytest.mark.parametrize("error", ["SystemExit", "KeyboardInterrupt"])
def test_a_handler_that_would_end_its_process_fails_and_the_process_goes_on(
    app: Outlast, slot: IsolatedSlot, error: str
) -> None:
    before = end_of(slot, app, jobs.own_pid).result
    ended = end_of(slot, app, jobs.raises, error=error)
    assert ended.error is not None
    assert ended.error.startswith(f"{error}: 3\n  in raises (")
    assert end_of(slot, app, jobs.own_pid).result == before


def test_a_result_that_cannot_be_stored_fails_for_good(app: Outlast, slot: IsolatedSlot) -> None:
    for function, payload, words in (
        (jobs.not_json, {}, "set"),
        (jobs.long_text, {"characters": 10_000_000}, "10000002 bytes"),
    ):
        ended = end_of(slot, app, function, **payload)
        assert ended.error is not None
        assert words in ended.error
        assert not ended.retryable
        assert ended.result is None


def test_large_payloads_and_results_come_through_whole(app: Outlast, slot: IsolatedSlot) -> None:
    """Larger than any buffer of a socket, in both directions."""
    value = "ä" * 500_000
    assert end_of(slot, app, jobs.echo, value=value).result == f'"{value}"'


def test_what_a_handler_prints_is_printed_and_nothing_else(
    app: Outlast,
    slot: IsolatedSlot,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    assert end_of(slot, app, jobs.prints, lines=2000).result == "2000"
    printed = capfd.readouterr()
    lines = printed.out.splitlines()
    assert [line for line in lines if line.startswith("line")] == [
        f"line {n} of the handler" for n in range(2000)
    ]
    assert len(lines) == 2001
    assert printed.err == "raw error of the handler\n"


def _has_input(path: str) -> None:
    from outlast import Outlast
    from outlast.worker.isolation.slot import IsolatedSlot
    from tests.support.childside import hear, say
    from tests.worker.isolation import isolated_jobs as jobs
    from tests.worker.isolation.isolated_stage import end_of

    slot = IsolatedSlot()
    say(end_of(slot, Outlast(path), jobs.reads_its_input).result)
    slot.close()
    say(hear())


def test_a_handler_does_not_read_its_workers_input(tmp_path: Path) -> None:
    with Child(_has_input, tmp_path / "work.db") as child:
        child.say("for the worker")
        assert child.hear() == '""'
        assert child.hear() == "for the worker"


# The context


def test_a_checkpoint_is_stored_by_the_worker(app: Outlast, slot: IsolatedSlot) -> None:
    data = {"page": 7, "text": "ü" * 100_000}
    claimed, ctx = attempt(app, jobs.records, type="manual_checkpoint", data=data)
    ended = slot.run(jobs.records, claimed, ctx)
    assert ended.error is None
    (stored,) = app.checkpoints(claimed.task_id)
    assert (stored.type, stored.data) == ("manual_checkpoint", data)
    assert stored.metadata == {"by": "records"}
    assert ended.result is not None
    assert '"before":false,"number":1,' in ended.result
    assert '"zone":"UTC"' in ended.result


def test_a_refused_checkpoint_raises_its_own_error_in_the_handler(
    app: Outlast, slot: IsolatedSlot
) -> None:
    ended = end_of(slot, app, jobs.records, type="no_such_type", data={})
    assert ended.error is not None
    assert ended.error.startswith("InvalidInput: a checkpoint's type is one of")


def test_a_checkpoint_on_a_lost_lease_raises_lease_lost_in_the_handler(
    app: Outlast, slot: IsolatedSlot
) -> None:
    claimed, ctx = attempt(app, jobs.records, type="manual_checkpoint", data={})
    app.cancel(claimed.task_id)
    ended = slot.run(jobs.records, claimed, ctx)
    assert ended.error is not None
    assert ended.error.startswith(f"LeaseLost: the lease on {claimed.task_id} is no longer")
    assert app.checkpoints(claimed.task_id) == []


def test_the_context_tells_of_the_attempt_and_carries_progress(
    app: Outlast, slot: IsolatedSlot
) -> None:
    claimed, ctx = attempt(app, jobs.describes, group="g1")
    ended = slot.run(jobs.describes, claimed, ctx)
    assert ended.result == (
        f'{{"task_id":"{claimed.task_id}","kind":"describes","queue":"default","group":"g1",'
        '"attempt":1,"cancelled":false,"stopping":false,"waited":false}'
    )
    assert ctx.progressed == {
        "task_id": claimed.task_id, "done": 3, "total": 4, "note": "nearly",
    }  # fmt: skip


def test_a_waiting_handler_is_woken_when_the_worker_stops(
    app: Outlast, slot: IsolatedSlot, tmp_path: Path
) -> None:
    with Running(slot, app, jobs.waits_to_stop, sign=str(tmp_path / "sign")) as running:
        pids_in(tmp_path / "sign")
        running.ctx.stop_soon()
        assert running.ended().result == "true"


def test_threads_of_a_handler_may_ask_at_the_same_time(app: Outlast, slot: IsolatedSlot) -> None:
    assert end_of(slot, app, jobs.records_by_threads, threads=4, each=10).result == "40"


def test_what_a_handler_leaves_behind_cannot_speak_for_the_next_task(
    app: Outlast, slot: IsolatedSlot
) -> None:
    end_of(slot, app, jobs.keeps_its_context)
    claimed, ctx = attempt(app, jobs.speaks_for_another)
    ended = slot.run(jobs.speaks_for_another, claimed, ctx)
    assert ended.error is not None
    assert ended.error.startswith("LeaseLost")
    assert ctx.progressed is None


def test_a_handler_may_use_the_store_itself(app: Outlast, slot: IsolatedSlot) -> None:
    ended = end_of(slot, app, jobs.uses_a_store, path=str(app.path))
    assert ended.result is not None
    assert app.get(ended.result.strip('"')).kind == "more"
    slot.close()
    assert app.get(ended.result.strip('"')).status.value == "pending"


# Memory


def test_a_handler_that_meets_its_memory_limit_fails_with_both_figures(
    app: Outlast, slot: IsolatedSlot
) -> None:
    ended = end_of(slot, app, memory_jobs.hogs)
    assert ended.error is not None
    first, frame = ended.error.splitlines()
    assert ended.peak_memory_bytes is not None
    peak_mib = ended.peak_memory_bytes // jobs.MIB
    assert first == f"MemoryError (limit 256 MiB, peak {peak_mib} MiB)"
    assert "in hogs (" in frame
    assert 200 < peak_mib < 300
    assert ended.retryable


def test_a_limit_below_what_the_process_has_anyway_fails_in_order(
    app: Outlast, slot: IsolatedSlot
) -> None:
    for _ in range(2):
        ended = end_of(slot, app, memory_jobs.has_nothing)
        assert ended.error is not None
        assert ended.error.startswith("MemoryError (limit 0 MiB, peak ")
    assert end_of(slot, app, jobs.add, a=1, b=2).result == "3"


def test_the_limit_of_one_function_is_not_that_of_the_next(
    app: Outlast, slot: IsolatedSlot
) -> None:
    end_of(slot, app, memory_jobs.hogs)
    pid = slot.pid
    assert end_of(slot, app, memory_jobs.uses, mib=300).error is None
    assert slot.pid == pid


def test_the_limit_counts_memory_and_not_the_addresses_threads_reserve(
    app: Outlast, slot: IsolatedSlot
) -> None:
    assert end_of(slot, app, memory_jobs.has_many_threads).result == "8"


def test_the_peak_of_each_task_is_its_own(app: Outlast, slot: IsolatedSlot) -> None:
    small, large, small_again = (
        (end_of(slot, app, memory_jobs.uses, mib=mib).peak_memory_bytes or 0) / jobs.MIB
        for mib in (1, 150, 1)
    )
    assert 5 < small < 80
    assert 150 < large < 230
    assert small_again < 80


@pytest.mark.slow
def test_the_peak_of_a_dead_process_is_not_that_of_its_worker(
    app: Outlast, slot: IsolatedSlot
) -> None:
    """The kernel counts what a process had before exec, which was its parent's."""
    held = b"x" * (300 * jobs.MIB)
    ended = end_of(slot, app, memory_jobs.segfaults_with, mib=100)
    assert len(held) > 0
    assert ended.peak_memory_bytes is not None
    assert 100 < ended.peak_memory_bytes / jobs.MIB < 200


def test_a_system_without_memory_ends_a_handler_rather_than_its_worker(
    app: Outlast, slot: IsolatedSlot
) -> None:
    ours = int(Path("/proc/self/oom_score_adj").read_text(encoding="ascii"))
    assert end_of(slot, app, memory_jobs.own_oom_score).result == str(min(ours + 500, 1000))


def test_a_handler_whose_worker_is_gone_does_not_try_for_ever_to_tell_it() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours, pytest.raises(EOFError):
        Line(ours).send(FromHandler(ended=Ended("1")))


def test_slots_do_not_disturb_each_other(app: Outlast) -> None:
    slots = [IsolatedSlot() for _ in range(3)]
    attempts = [[attempt(app, jobs.echo, value=[n, m]) for m in range(5)] for n in range(3)]
    answers: list[list[str | None]] = [[] for _ in slots]

    def run(n: int) -> None:
        answers[n].extend(slots[n].run(jobs.echo, *one).result for one in attempts[n])
        slots[n].close()

    threads = [threading.Thread(target=run, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert answers == [[f"[{n},{m}]" for m in range(5)] for n in range(3)]
