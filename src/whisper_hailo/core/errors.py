"""The error tree, and how messages show file names.

Every message says what was got, what was expected, and the next step. The command line prints
`str(error)` as one line and exits with `error.exit_code` (`docs/errors.md`); nothing below `cli`
exits or prints.
"""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path


class ExitCode(IntEnum):
    """Process exit codes of the `whisper-hailo` command."""

    OK = 0
    INTERNAL = 1
    USAGE = 2
    AUDIO = 3
    MODEL = 4
    HUB = 5
    DEVICE = 6
    OUTPUT = 7
    INTERRUPTED = 130


class WhisperHailoError(Exception):
    """Base of every error a user can cause or mend."""

    exit_code: ExitCode = ExitCode.INTERNAL


class OptionError(WhisperHailoError):
    """An option has a value that cannot be used."""

    exit_code = ExitCode.USAGE


class AudioError(WhisperHailoError):
    """An audio file is missing, unreadable or holds nothing to transcribe."""

    exit_code = ExitCode.AUDIO


class ModelError(WhisperHailoError):
    """A checkpoint, a model directory or a graph is missing, broken or does not fit."""

    exit_code = ExitCode.MODEL


class ShapeError(ModelError):
    """An array does not have the shape that the model takes."""


class HefError(ModelError):
    """A HEF is missing, broken, or holds another network than is needed."""


class TokenizerError(ModelError):
    """Tokenizer files are missing, broken or do not belong to the model."""


class HubError(WhisperHailoError):
    """A model could not be fetched from the model hub."""

    exit_code = ExitCode.HUB


class HubUnreachableError(HubError):
    """The model hub does not answer at all."""


class DeviceError(WhisperHailoError):
    """The accelerator is missing, busy, of the wrong kind, or failed."""

    exit_code = ExitCode.DEVICE


class NoBindingError(DeviceError):
    """Hailo's Python binding is not installed, or not visible to this environment."""


class BindingMismatchError(DeviceError):
    """Hailo's binding, library, driver, service, Python or NumPy do not fit each other."""


class NoDeviceError(DeviceError):
    """This machine has no Hailo chip."""


class DeviceBusyError(DeviceError):
    """Another program holds the chip."""


class WrongChipError(DeviceError):
    """A network is compiled for another chip."""


class DeviceTimeoutError(DeviceError):
    """The chip did not answer in time."""


class DeviceLostError(DeviceError):
    """The chip went away, or gave up, in the middle of its work; it may come back."""


class WrongAnswerError(DeviceError):
    """The chip answers, but not with what the model says to the same audio."""


class OutputError(WhisperHailoError):
    """A result could not be written: no permission, full disk."""

    exit_code = ExitCode.OUTPUT


def display_path(name: str | Path) -> str:
    """Return a name as it is, or quoted if it has invisible or control characters."""
    text = str(name)
    has_margin = text != text.strip()
    if not text or has_margin or not text.isprintable():
        return repr(text)
    return text
