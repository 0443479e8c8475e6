"""`outlast completion`: the script by which a shell completes our commands and options."""

import click

from outlast.cli.command import Common, Verb, with_common
from outlast.cli.output.views import View, put, show


@click.command("completion", cls=Verb)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@with_common
def completion(common: Common, shell: str) -> None:
    """Print a completion script.

    It lets SHELL complete commands and options.

    \b
    bash: outlast completion bash > ~/.local/share/bash-completion/completions/outlast
    zsh:  outlast completion zsh > a file _outlast in a folder of your fpath
    fish: outlast completion fish > ~/.config/fish/completions/outlast.fish
    """
    from click.shell_completion import get_completion_class

    from outlast.cli.main import COMPLETION_VARIABLE, PROGRAM, cli

    found = get_completion_class(shell)
    assert found is not None, "the choices are click's own shells"
    script = found(cli, {}, PROGRAM, COMPLETION_VARIABLE).source()
    if common.as_json:
        show(common, View({"shell": shell, "script": script}))
    else:
        put(script)
