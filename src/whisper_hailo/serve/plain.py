"""What strangers are told of an error: its own words, without anything of this machine in them."""

from __future__ import annotations

import re
from typing import Final

from whisper_hailo.core.errors import WhisperHailoError
from whisper_hailo.serve.errors import RejectedError

_PATH: Final = re.compile(r"(?<![\w:/.])/[^\s'\",;:)]+")
"""Of a file: it begins where no address of the web has its host."""

_FLAG: Final = re.compile(r"--([a-z][a-z-]*[a-z])")


def sanitize_error(error: BaseException) -> str:
    """The message of an error, without paths and with parameters for the command's options."""
    if isinstance(error, RejectedError):
        return str(error)
    if isinstance(error, TimeoutError):
        return "nothing came for too long; ask again"
    if not isinstance(error, WhisperHailoError):
        return "internal error; the server's log says more"
    plain = _PATH.sub("...", str(error))
    return _FLAG.sub(lambda found: found[1].replace("-", "_"), plain)
