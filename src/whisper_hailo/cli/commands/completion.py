"""`whisper-hailo completion`: what a shell needs to complete commands, options and their values."""

from __future__ import annotations

from typing import Annotated, Final

from whisper_hailo.cli.options import Argument
from whisper_hailo.cli.streams import emit
from whisper_hailo.core.errors import OptionError

PROGRAM: Final = "whisper-hailo"
VARIABLE: Final = "_WHISPER_HAILO_COMPLETE"
"""Set by the shell that asks for completions."""
SHELLS: Final = ("bash", "zsh", "fish")


def completion(shell: Annotated[str, Argument(f"{', '.join(SHELLS)}.")]) -> None:
    """Print the script that makes bash, zsh or fish complete what you type.

    bash: whisper-hailo completion bash >> ~/.bashrc

    zsh, behind compinit: whisper-hailo completion zsh >> ~/.zshrc

    fish: whisper-hailo completion fish > ~/.config/fish/conf.d/whisper.fish
    """
    if shell not in SHELLS:
        raise OptionError(f"cannot complete in {shell!r}, expected one of: {', '.join(SHELLS)}")
    emit(script(shell))


def script(shell: str) -> str:
    """Return what one of `SHELLS` reads at its start, or where it looks for completions."""
    import click
    from click import shell_completion as shells

    kinds = {"bash": shells.BashComplete, "zsh": shells.ZshComplete, "fish": shells.FishComplete}
    made = kinds[shell](click.Command(PROGRAM), {}, PROGRAM, VARIABLE)
    return shells.ShellComplete.source(made)  # bash's own starts a bash to see how old it is
