"""How much a command logs: `-q` and `-v`, before its name and behind it."""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from typing import Final

from whisper_hailo.cli.failures import OneLine, tell
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import flag

_OURS: Final = "whisper_hailo"


@dataclass(frozen=True, slots=True)
class Verbosity:
    """How much goes to standard error."""

    verbose: bool = flag(False, "Log details, such as the engine.", short="-v")
    quiet: bool = flag(False, "Only warnings and errors.", short="-q", also=("-np", "--no-prints"))

    def __post_init__(self) -> None:
        if self.verbose and self.quiet:
            raise OptionError("--verbose and --quiet contradict each other; give one")

    @property
    def level(self) -> int:
        return logging.DEBUG if self.verbose else logging.WARNING if self.quiet else logging.INFO


def configure_logging() -> None:
    """Log to standard error, each record one line."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)


def log_as(formatter: logging.Formatter) -> None:
    """Use a formatter for log records from now on."""
    for handler in logging.getLogger().handlers:
        handler.setFormatter(formatter)


def set_verbosity(verbosity: Verbosity) -> None:
    """Set the log level."""
    logging.getLogger(_OURS).setLevel(verbosity.level)


def log_package(package: str) -> None:
    """Log another package at the same level as ours."""
    logging.getLogger(package).setLevel(logging.getLogger(_OURS).level)


def is_verbose() -> bool:
    """Return whether this run logs details, as with `--verbose`."""
    return logging.getLogger(_OURS).isEnabledFor(logging.DEBUG)


def is_quiet() -> bool:
    """Return whether only warnings and errors are logged."""
    return logging.getLogger(_OURS).level >= logging.WARNING


def note(message: str) -> None:
    """Print a line on standard error, unless quiet."""
    if not is_quiet():
        tell(message)
