"""The command `outlast`: where a call begins, and where an error becomes a sentence and a code."""

import os
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from outlast.cli.command import Installed, Lazy, Verbs
from outlast.cli.exits import MEANINGS, Exit, exit_for
from outlast.cli.output.text import is_debugging, safe
from outlast.errors import OutlastError

PROGRAM = "outlast"
COMPLETION_VARIABLE = "_OUTLAST_COMPLETE"

# What click says by the names of its own types, in plain words.
_PLAIN = {
    "is not a valid integer range": "is not a whole number",
    "is not a valid float range": "is not a number",
}
_LINE_END = re.compile(r"\s*\n\s*")

COMMANDS: dict[str, Lazy | Installed] = {
    "up": Lazy("outlast.cli.commands.up", "up", "Recover, work and watch, in one process."),
    "worker": Lazy(
        "outlast.cli.commands.worker", "worker", "Run a worker, list workers, declare one dead."
    ),
    "enqueue": Lazy(
        "outlast.cli.commands.enqueue", "enqueue", "Store a task of KIND and print its id."
    ),
    "task": Lazy(
        "outlast.cli.commands.task", "task", "Look at tasks, retry, cancel and force them."
    ),
    "checkpoint": Lazy(
        "outlast.cli.commands.checkpoint", "checkpoint", "See what a task recorded of its progress."
    ),
    "queue": Lazy(
        "outlast.cli.commands.queue",
        "queue",
        "Figures of the queues; pause and resume them; recovery by hand.",
    ),
    "lock": Lazy("outlast.cli.commands.lock", "lock", "See who holds named locks, and free them."),
    "metrics": Lazy(
        "outlast.cli.commands.metrics", "metrics", "Answer the scrapes of a Prometheus server."
    ),
    "store": Lazy("outlast.cli.commands.store", "store", "Keep the store's file in order."),
    "health": Lazy("outlast.cli.commands.health", "health", "Say whether the store is well."),
    "demo": Lazy(
        "outlast.cli.demo.command", "demo", "Kill a worker with SIGKILL, and see what survives."
    ),
    "lab": Installed("outlast-lab", "Break Outlast on purpose, and judge what is left."),
    "completion": Lazy(
        "outlast.cli.commands.completion", "completion", "Print a completion script."
    ),
}

_EPILOG = "\b\nExit codes:\n" + "\n".join(
    f"  {code.value:<4} {meaning}" for code, meaning in MEANINGS.items()
)


class Root(Verbs):
    """The whole command line; its main() ends the process with a documented code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> NoReturn:
        """Run one call; nothing that goes wrong in it is shown as a traceback."""
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        words = list(sys.argv[1:] if args is None else args)
        self._main_shell_completion(extra, PROGRAM, complete_var or COMPLETION_VARIABLE)
        try:
            code = self._run(words, extra)
            sys.stdout.flush()
        except BrokenPipeError:
            _forget_stdout()
            code = Exit.PIPE_CLOSED
        sys.exit(int(code))

    def _run(self, words: list[str], extra: dict[str, Any]) -> int:
        as_json = "--json" in words
        try:
            with self.make_context(PROGRAM, words, **extra) as context:
                answer = self.invoke(context)
            return answer if isinstance(answer, int) else Exit.FINE
        except click.exceptions.Exit as leaving:
            return leaving.exit_code
        except BrokenPipeError:
            raise
        except BaseException as error:
            if is_debugging():
                _show_traceback()
            if isinstance(error, click.exceptions.NoArgsIsHelpError):
                error.show()
                return Exit.USAGE
            sentence, code = _explained(error)
            _say(sentence)
            if as_json:
                import json

                click.echo(json.dumps({"error": sentence, "code": code}))
            return code


def _explained(error: BaseException) -> tuple[str, int]:
    """What went wrong in one sentence, and the code to leave with."""
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return "interrupted", Exit.INTERRUPTED
    if isinstance(error, click.ClickException):
        return _usage(error), error.exit_code
    if isinstance(error, OutlastError):
        return str(error), exit_for(error)
    if not isinstance(error, Exception):
        raise error
    where = "set OUTLAST_DEBUG=1 to see where it comes from"
    return f"{type(error).__name__}: {error} ({where})", Exit.UNEXPECTED


def _usage(error: click.ClickException) -> str:
    message = _LINE_END.sub(" ", error.format_message().rstrip("."))
    for theirs, ours in _PLAIN.items():
        message = message.replace(theirs, ours)
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f"{message}; see '{error.ctx.command_path} --help'"
    return message


def _say(sentence: str) -> None:
    click.echo(f"{PROGRAM}: {safe(sentence)}", err=True)


def _show_traceback() -> None:
    import traceback

    click.echo(traceback.format_exc(), err=True)


def _forget_stdout() -> None:
    """Nobody reads any more; the interpreter must not stumble over that when it flushes."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


@click.group(
    PROGRAM,
    cls=Root,
    lazy=COMMANDS,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name=PROGRAM, message="outlast %(version)s")
def cli() -> None:
    """A crash-proof task queue in one SQLite file.

    Commands that only look never create or change a store. APP is module:app, a module, or a file
    such as jobs.py. Options of every command may stand before or after its name.
    """


def main() -> NoReturn:
    """The entry point of the command and of `python -m outlast`."""
    cli.main()
