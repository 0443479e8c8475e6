"""A fork server as the experiment sees it: started, asked, ended with all that it has under way."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from socket import socket
from typing import Any

from outlast_lab.stage.wire import ANSWERS, RAISES, Wire

GOODBYE_SECONDS = 10.0


class Lost(Exception):
    """A fork server is gone; its last words."""


class Raised(Exception):
    """What a fork server was asked raised something; its words."""


class ForkServer:
    """A process that does what it is asked: it runs `module:function` with its wire and arguments.

    It is a session of its own: an interrupt from the keyboard is heard by the laboratory alone, and
    it can be ended with all that it started. `prefix` and `environment` are the world it lives in,
    `prelude` a program that runs there first: tests plant their defects by it.
    """

    def __init__(
        self,
        function: str,
        *arguments: Any,
        prefix: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        prelude: str = "",
    ) -> None:
        # Not a pipe, for nobody reads it, and a process with much to say would wait for a reader.
        self._said = os.memfd_create("what a fork server says")
        self.wire, theirs = Wire.pair()
        begin = f"{begin_serving.__name__}({theirs.fileno()}, {function!r}, {arguments!r})"
        program = f"{prelude}\nfrom {__name__} import {begin_serving.__name__}\n{begin}\n"
        path = os.pathsep.join(one for one in sys.path if one)
        with theirs:
            self._process = subprocess.Popen(
                [*prefix, sys.executable, "-P", "-c", program],
                pass_fds=[theirs.fileno()],
                env={**os.environ, "PYTHONPATH": path, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=self._said,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The pid of the process, or of what it was prefixed by."""
        return self._process.pid

    def ask(self, verb: str, *arguments: Any, **options: Any) -> Any:
        """Have it do something, and wait for the answer."""
        self.tell(verb, *arguments, **options)
        word, value = self.hear()
        if word == RAISES:
            raise Raised(value)
        assert word == ANSWERS
        return value

    def tell(
        self, verb: str, *arguments: Any, descriptors: Sequence[int] = (), **options: Any
    ) -> None:
        """Have it do something; what comes of it is to be heard."""
        try:
            self.wire.send([verb, arguments, options], *descriptors)
        except OSError as error:
            raise self._lost(error) from None

    def hear(self) -> tuple[str, Any]:
        """The next that it has to say, and by which word."""
        try:
            heard = self.wire.receive()
        except OSError as error:
            raise self._lost(error) from None
        if heard is None:
            raise self._lost("it has ended")
        word, value = heard[0]
        return word, value

    def _lost(self, why: object) -> Lost:
        self.kill()
        self._process.wait(GOODBYE_SECONDS)
        said = os.pread(self._said, os.fstat(self._said).st_size, 0)
        words = said.decode(errors="replace").strip().splitlines()[-1:]
        return Lost(f"{why}: {words[0]}" if words else str(why))

    def kill(self) -> None:
        """End it with all that it started; until it was waited for, the number is its own."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def terminate(self, goodbye_seconds: float) -> None:
        """Let it end its work in its own way; returns once it is gone."""
        self._process.terminate()
        self._await_end(goodbye_seconds)

    def close(self, goodbye_seconds: float | None = None) -> None:
        """Let it go: it ends when nobody can ask any more; if not, it is killed."""
        if self._said >= 0:
            self.wire.close()
            self._await_end(GOODBYE_SECONDS if goodbye_seconds is None else goodbye_seconds)
            os.close(self._said)
            self._said = -1

    def _await_end(self, seconds: float) -> None:
        try:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
        finally:
            self.kill()
            self._process.wait()


def begin_serving(descriptor: int, function: str, arguments: Sequence[Any]) -> None:
    """What the process begins with: import what is to serve, and leave the rest to it."""
    os.set_inheritable(descriptor, False)
    module, _, name = function.partition(":")
    getattr(import_module(module), name)(Wire(socket(fileno=descriptor)), *arguments)
