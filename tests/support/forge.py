"""Processes by the dozen for tests that kill many: one child has imported all, and forks them.

Each forked process is a real one, with a store opened by itself; only the start of Python is
spared.
"""

import os
import signal
from collections import defaultdict, deque
from typing import Any, NamedTuple

from tests.support.children import Child


class Forked(NamedTuple):
    """A process of the forge, as the test sees it."""

    forge: "Forge"
    pid: int

    def hear(self) -> Any:
        """The next thing it says."""
        return self.forge.hear_from(self.pid)

    def killed(self) -> None:
        """End it as a crash would; returns once it is reaped."""
        os.kill(self.pid, signal.SIGKILL)
        assert self.ended() == -signal.SIGKILL

    def ended(self) -> int:
        """Its exit code, negative for a signal; waits for it, and drops what it said before."""
        return self.forge.end_of(self.pid)


class Forge(Child):
    """A child that runs functions of a module of the tests in processes that it forks."""

    def __init__(self, module: str) -> None:
        super().__init__(_serves, module)
        self._said: dict[int, deque[Any]] = defaultdict(deque)
        self._ends: dict[int, int] = {}

    def __enter__(self) -> "Forge":
        return self

    def fork(self, function: str, *arguments: Any, count: int = 1) -> list[Forked]:
        """As many processes, which begin together; the next ones when all of these have ended."""
        self.say([function, [str(one) for one in arguments], count])
        pids = self.hear()["forked"]
        return [Forked(self, pid) for pid in pids]

    def hear_from(self, pid: int) -> Any:
        """The next thing that one of them says."""
        while not self._said[pid]:
            assert pid not in self._ends, f"process {pid} ended with {self._ends[pid]}"
            self._sort_one()
        return self._said[pid].popleft()

    def end_of(self, pid: int) -> int:
        """How one of them ended; waits for it."""
        while pid not in self._ends:
            self._sort_one()
        return self._ends[pid]

    def _sort_one(self) -> None:
        heard = self.hear()
        if "ended" in heard:
            self._ends[heard["pid"]] = heard["ended"]
        else:
            self._said[heard["pid"]].append(heard["said"])


def _serves(module: str) -> None:
    """The forge's own side: fork, let them begin together, and tell how each of them ended."""
    import ctypes
    import importlib
    import os
    import signal
    import traceback

    from tests.support.childside import hear, say

    functions = importlib.import_module(module)
    while True:
        function, arguments, count = hear()
        waiting, beginning = os.pipe()
        pids = []
        for _ in range(count):
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    # Whatever becomes of the test, they end with the forge.
                    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
                    os.close(beginning)
                    os.read(waiting, 1)
                    pid = os.getpid()
                    getattr(functions, function)(
                        lambda value=None, pid=pid: say({"pid": pid, "said": value}), *arguments
                    )
                    code = 0
                except BaseException:
                    traceback.print_exc()
                finally:
                    os._exit(code)
            pids.append(pid)
        os.close(waiting)
        say({"forked": pids})
        os.close(beginning)
        for _ in pids:
            pid, status = os.wait()
            say({"pid": pid, "ended": os.waitstatus_to_exitcode(status)})
