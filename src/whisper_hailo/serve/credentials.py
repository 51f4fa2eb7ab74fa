"""Keys and certificate of a server, renewed from their files while it runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeAlias

from whisper_hailo.core.errors import OptionError
from whisper_hailo.serve.options import SafetyOptions

logger = logging.getLogger(__name__)

_CHECK_INTERVAL_S: Final = 5.0

_Stamp: TypeAlias = tuple[int, int, int]


class Credentials:
    """What a server lets clients in with, and what it shows them.

    Attributes:
        safety: the options that name the files.
        keys: API keys; renewed in place.
        tls: context of HTTPS, renewed in place for connections to come; `None` for HTTP.

    Raises:
        OptionError: a file cannot be used.
    """

    def __init__(self, safety: SafetyOptions) -> None:
        self.safety = safety
        self.keys = list(safety.keys())
        self.tls = safety.tls()
        named = (safety.api_key_file, safety.tls_cert, safety.tls_key)
        self._files = [path for path in named if path is not None]
        self._stamps = self._read_stamps()

    @property
    def can_renew(self) -> bool:
        """Whether anything is in a file."""
        return bool(self._files)

    def renew(self) -> None:
        """Read all files again; what cannot be used leaves everything as it was."""
        self._stamps = self._read_stamps()
        safety = self.safety
        try:
            keys = safety.keys()
            safety.tls()  # the running context must not get half of a pair
            if self.tls and safety.tls_cert and safety.tls_key:
                self.tls.load_cert_chain(safety.tls_cert, safety.tls_key, password="")
        except (OptionError, OSError) as error:
            logger.warning(
                "keys and certificate could not be reloaded, so the old ones stay in use: %s",
                error,
            )
            return
        self.keys[:] = keys
        logger.info("keys and certificate were reloaded")

    async def renew_on_change(self) -> None:
        """Renew whenever a file has changed, as by a renewed certificate; never returns."""
        while True:
            await asyncio.sleep(_CHECK_INTERVAL_S)
            if self._read_stamps() != self._stamps:
                self.renew()

    def _read_stamps(self) -> Mapping[Path, _Stamp | None]:
        return {path: _read_stamp(path) for path in self._files}


def _read_stamp(path: Path) -> _Stamp | None:
    """Return what changes with a file; `None` while there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
