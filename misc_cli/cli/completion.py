"""`misc shell-completion`: what a shell needs to complete our commands and flags."""

from __future__ import annotations

import click

from misc_cli.cli import options, outputs

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_MISC_COMPLETE"

EXAMPLES = """
misc shell-completion bash > ~/.local/share/bash-completion/completions/misc
misc shell-completion zsh > "${fpath[1]}/_misc"
misc shell-completion fish > ~/.config/fish/completions/misc.fish
"""


@click.command(cls=options.Command, examples=EXAMPLES)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the script that completes commands, flags and files in a shell."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    completion = found(context.find_root().command, {}, "misc", VARIABLE)
    # not .source(): for bash that starts one to ask its version, and ours may be another machine's
    script = completion.source_template % completion.source_vars()
    outputs.write_bytes(script.encode())
