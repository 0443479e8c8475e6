"""How a function is found again by another process, wherever it was defined."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from outlast import Outlast
from outlast.tasks.execute import Ended
from outlast.tasks.functions import AnyFunction, FunctionOptions, TaskFunction
from outlast.worker.isolation.load import Unreachable, place_of
from outlast.worker.isolation.slot import IsolatedSlot
from tests.support.children import ROOT
from tests.worker.isolation import isolated_jobs as jobs
from tests.worker.isolation.isolated_stage import attempt, end_of

TASKS = """
from outlast import Outlast
from outlast.worker.isolation.slot import IsolatedSlot
from tests.worker.isolation.isolated_stage import end_of

app = Outlast("work.db")

@app.task(isolation="process")
def double(n: int) -> list:
    return [2 * n, __name__]
"""

WORK = """
def work():
    slot = IsolatedSlot()
    ended = end_of(slot, app, double, n=21)
    slot.close()
    print("ENDED", [ended.result, ended.error, ended.retryable])
"""

GUARDED = """
if __name__ == "__main__":
    work()
"""

Files = Callable[..., Path]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Writes a program's files into a folder and returns that folder."""

    def write(**texts: str) -> Path:
        for name, text in texts.items():
            path = tmp_path / (name.replace("__in__", "/") + ".py")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return tmp_path

    return write


def outcome(folder: Path, *command: str) -> list[Any]:
    """What a program says of its isolated task: result, error, whether it may be retried."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("ENDED")]
    assert len(lines) == 1, done.stdout + done.stderr
    said: list[Any] = eval(lines[0].removeprefix("ENDED"))
    return said


def result(folder: Path, *command: str) -> Any:
    text, error, _ = outcome(folder, *command)
    assert error is None
    return json.loads(text)


def test_a_function_of_a_script_is_found_in_its_file(files: Files) -> None:
    """The script is loaded under another name, so what stands behind its guard runs once."""
    folder = files(script=TASKS + WORK + GUARDED)
    assert result(folder, "script.py") == [42, "__mp_main__"]
    assert not (folder / "__pycache__").exists()


def test_a_script_elsewhere_finds_the_modules_beside_it(files: Files, tmp_path: Path) -> None:
    folder = files(
        scripts__in__script="import beside\n" + TASKS + WORK + GUARDED,
        scripts__in__beside="",
    )
    assert result(folder, "scripts/script.py") == [42, "__mp_main__"]


def test_a_function_of_a_module_that_runs_as_main_is_found_by_the_modules_name(
    files: Files,
) -> None:
    folder = files(package__in____init__="", package__in__tasks=TASKS + WORK + GUARDED)
    assert result(folder, "-m", "package.tasks") == [42, "package.tasks"]


def test_a_function_of_a_package_is_found_by_name(files: Files) -> None:
    folder = files(
        package__in____init__="",
        package__in__tasks=TASKS + WORK,
        main="from package.tasks import work\nwork()\n",
    )
    assert result(folder, "main.py") == [42, "package.tasks"]


LOADS_A_FILE = """
import importlib.util
spec = importlib.util.spec_from_file_location("a_name_of_its_own", "apps/tasks.py")
module = importlib.util.module_from_spec(spec)
{register}
spec.loader.exec_module(module)
module.work()
"""


@pytest.mark.parametrize(
    "register",
    ["import sys; sys.modules[spec.name] = module", ""],
    ids=["registered", "not registered"],
)
def test_a_function_of_a_file_that_was_loaded_by_its_path_is_found(
    files: Files, register: str
) -> None:
    folder = files(
        apps__in__tasks="import beside\n" + TASKS + WORK,
        apps__in__beside="",
        main="import sys; sys.path.insert(0, 'apps')\n" + LOADS_A_FILE.format(register=register),
    )
    assert result(folder, "main.py") == [42, "a_name_of_its_own"]


def test_a_file_with_the_name_of_a_module_is_not_taken_for_it(files: Files) -> None:
    """Importing the name would lead to the wrong one."""
    load = LOADS_A_FILE.replace("a_name_of_its_own", "json").format(register="")
    folder = files(apps__in__tasks=TASKS + WORK, main=load)
    assert result(folder, "main.py") == [42, "json"]


def test_a_search_path_that_was_changed_at_run_time_counts(files: Files) -> None:
    folder = files(
        elsewhere__in__tasks=TASKS + WORK,
        main="import sys\nsys.path.append('elsewhere')\nfrom tasks import work\nwork()\n",
    )
    assert result(folder, "main.py") == [42, "tasks"]


def test_a_function_whose_name_stayed_plain_is_found_by_its_kind(files: Files) -> None:
    tasks = TASKS.replace("@app.task(isolation", "@app.task(name='double', isolation")
    tasks = tasks.replace("@app", "register = app").replace("def double", "def twice")
    tasks += "\nregister(twice)\n" + WORK.replace("double", "app.functions['double']")
    folder = files(tasks=tasks, main="from tasks import work\nwork()\n")
    assert result(folder, "main.py") == [42, "tasks"]


def test_a_program_without_a_file_is_refused_for_good(files: Files) -> None:
    text, error, retryable = outcome(files(), "-c", TASKS + WORK + GUARDED)
    assert text is None
    assert error.startswith("Unreachable: double of module __main__ has no file")
    assert not retryable


def test_a_module_that_only_the_worker_has_is_missed_for_good(files: Files) -> None:
    folder = files(
        tasks="import invented\n" + TASKS + WORK,
        main=(
            "import sys, types\nsys.modules['invented'] = types.ModuleType('invented')\n"
            "from tasks import work\nwork()\n"
        ),
    )
    text, error, retryable = outcome(folder, "main.py")
    assert text is None
    assert error.startswith("Unreachable: its own process could not load double from module tasks")
    assert "'invented'" in error
    assert not retryable


def test_a_function_that_is_registered_behind_a_condition_is_missed_for_good(
    files: Files,
) -> None:
    tasks = TASKS.replace("@app", "register = app") + WORK
    script = tasks + "\nif __name__ == '__main__':\n    double = register(double)\n    work()\n"
    text, error, retryable = outcome(files(script=script), "script.py")
    assert text is None
    assert "module __main__ has no task double when it is loaded" in error
    assert not retryable


def test_a_module_that_fails_while_it_loads_may_do_better_next_time(files: Files) -> None:
    """What it lacks, a file or a server, may be there by then."""
    script = TASKS + WORK + GUARDED + "else:\n    raise OSError('not there yet')\n"
    _, error, retryable = outcome(files(script=script), "script.py")
    assert error.splitlines()[0] == "OSError: not there yet"
    assert retryable


def test_a_script_without_a_guard_does_not_start_itself_again_and_again(files: Files) -> None:
    _, error, retryable = outcome(files(script=TASKS + WORK + "\nwork()\n"), "script.py")
    assert error.startswith("Unreachable: module __main__ enqueues or starts a worker when it is")
    assert "__name__" in error
    assert not retryable


def test_a_script_sees_the_arguments_its_worker_was_started_with(files: Files) -> None:
    script = TASKS.replace("2 * n", "sys.argv[1]") + WORK + GUARDED
    assert result(files(script="import sys\n" + script), "script.py", "ä b")[0] == "ä b"


def test_a_module_that_crashes_while_it_loads_says_so(files: Files) -> None:
    script = TASKS + WORK + GUARDED + "else:\n    import os; os.abort()\n"
    _, error, _ = outcome(files(script=script), "script.py")
    assert error.startswith("the handler's process was killed by SIGABRT (peak memory ")
    assert error.endswith(" while it loaded module __main__")


def test_loading_that_takes_too_long_is_ended(app: Outlast, files: Files) -> None:
    folder = files(hangs="import time\ntime.sleep(600)\n")
    ended = _end_in(app, folder / "hangs.py", IsolatedSlot(loading_seconds=0.5))
    assert ended.error is not None
    assert "was killed: loading took longer than 0.5 s" in ended.error


def test_a_timeout_is_for_the_handler_and_not_for_loading_its_module(
    app: Outlast, files: Files
) -> None:
    slow = (
        "import time\nfrom outlast import Outlast\ntime.sleep(1.2)\napp = Outlast('none.db')\n"
        "@app.task(isolation='process')\ndef work() -> int:\n    return 1\n"
    )
    folder = files(slow=slow)
    ended = _end_in(app, folder / "slow.py", IsolatedSlot(), timeout_seconds=1.0)
    assert (ended.result, ended.error) == ("1", None)


def _end_in(
    app: Outlast, file: Path, slot: IsolatedSlot, timeout_seconds: float | None = None
) -> Ended:
    """How the function `work` of a file ends that this process has not loaded."""
    module = ModuleType(file.stem)
    module.__file__ = str(file)
    sys.modules[module.__name__] = module
    function = _function_of(module.__name__, "work")
    try:
        claimed, ctx = attempt(app, function)
        return slot.run(function, claimed, ctx, timeout_seconds=timeout_seconds)
    finally:
        slot.close()
        del sys.modules[module.__name__]


def _function_of(module: str, qualname: str) -> AnyFunction:
    def work() -> None:
        raise AssertionError("never run here")

    work.__module__, work.__qualname__ = module, qualname
    return TaskFunction(work, "work", FunctionOptions(isolation="process"))


def test_a_function_inside_a_function_cannot_be_found() -> None:
    with pytest.raises(Unreachable, match="define it at the top level"):
        place_of(_function_of(__name__, "outer.<locals>.inner"))


@pytest.mark.slow
def test_the_interpreter_is_told_what_its_worker_was_told(files: Files) -> None:
    script = TASKS.replace("2 * n", "[sys.flags.optimize, sys.flags.utf8_mode]") + WORK + GUARDED
    folder = files(script="import sys\n" + script)
    assert result(folder, "-O", "-X", "utf8", "script.py")[0] == [1, 1]


def test_no_process_is_started_before_one_is_needed(app: Outlast) -> None:
    slot = IsolatedSlot()
    pids = [slot.pid]
    end_of(slot, app, jobs.add, a=1, b=2)
    pids.append(slot.pid)
    slot.close()
    pids.append(slot.pid)
    assert [pid is not None for pid in pids] == [False, True, False]
