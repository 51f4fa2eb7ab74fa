"""How much a command tells of itself: `-q` and `-v`, before its name and behind it."""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import Any, Final

from whisper_hailo.cli.failures import OneLine, tell
from whisper_hailo.cli.groups import given_of, parameters_of
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import flag

_OURS: Final = "whisper_hailo"


@dataclass(frozen=True, slots=True)
class Loudness:
    """How much is told on standard error beside warnings and errors."""

    verbose: bool = flag(False, "Tell more: which engine runs, and why.", short="-v")
    quiet: bool = flag(False, "Only warnings and errors.", short="-q", also=("-np", "--no-prints"))

    def __post_init__(self) -> None:
        if self.verbose and self.quiet:
            raise OptionError("--verbose and --quiet contradict each other; give one")

    @property
    def level(self) -> int:
        return logging.DEBUG if self.verbose else logging.WARNING if self.quiet else logging.INFO


@dataclass(frozen=True, slots=True)
class Talk:
    """The options of a command.

    Attributes:
        package: the one that the command is from, whose loggers are heard.
    """

    package: str = _OURS

    def parameters(self, names: Set[str]) -> Iterable[inspect.Parameter]:
        """The options; a command may have one of its own for the same."""
        return [one for one in parameters_of(Loudness) if one.name not in names]

    def take(self, typed: dict[str, Any]) -> None:
        """Tell as much as is asked for, or as before the command's name."""
        given = given_of(Loudness, typed)
        if given.typed:
            set_loudness(given.on())
        logging.getLogger(self.package).setLevel(logging.getLogger(_OURS).level)


def begin_to_talk() -> None:
    """What is logged goes to standard error, each record one line."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)


def log_as(formatter: logging.Formatter) -> None:
    """What is logged has this form from now on."""
    for handler in logging.getLogger().handlers:
        handler.setFormatter(formatter)


def set_loudness(loudness: Loudness) -> None:
    """Tell more or less from now on."""
    logging.getLogger(_OURS).setLevel(loudness.level)


def is_verbose() -> bool:
    """Whether this run tells details, as with `--verbose`."""
    return logging.getLogger(_OURS).isEnabledFor(logging.DEBUG)


def is_quiet() -> bool:
    """Whether only warnings and errors are."""
    return logging.getLogger(_OURS).level >= logging.WARNING


def note(message: str) -> None:
    """One line on standard error that is no warning."""
    if not is_quiet():
        tell(message)
