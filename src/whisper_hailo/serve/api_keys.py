"""API keys: who may ask, and by which name a client with a key is known."""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Iterable

from whisper_hailo.core.errors import OptionError
from whisper_hailo.serve.errors import BadKeyError
from whisper_hailo.serve.options import SafetyOptions


def is_one_of(given: str, keys: Iterable[str]) -> bool:
    """Whether somebody knows one of some keys; the time that it takes tells nothing of them."""
    known, found = given.encode(errors="replace"), False
    for key in keys:  # all of them, so that time does not tell which was near
        found |= hmac.compare_digest(key.encode(), known)
    return found


logger = logging.getLogger(__name__)


class ApiKeys:
    """The keys of `--api-key` and `--api-key-file`; without any, everyone may ask.

    Args:
        safety: says where the keys are.
    """

    def __init__(self, safety: SafetyOptions) -> None:
        self._safety = safety
        self._keys = safety.keys()

    def __bool__(self) -> bool:
        """Return whether a key is needed."""
        return bool(self._keys)

    @property
    def can_reload(self) -> bool:
        """Whether the keys are in a file."""
        return self._safety.api_key_file is not None

    def reload(self) -> None:
        """Read the file again; if it cannot be read, the keys stay as they are."""
        try:
            self._keys = self._safety.keys()
        except OptionError as error:
            logger.warning("the API keys were not reloaded: %s", error)
        else:
            logger.info("reloaded the API keys: %d", len(self._keys))

    def client(self, given: str) -> str | None:
        """Return a name for the owner of a key that does not reveal it; `None` without keys.

        Raises:
            BadKeyError: none of the keys was given.
        """
        if not self._keys:
            return None
        if not is_one_of(given, self._keys):
            raise BadKeyError(
                "the API key is missing or wrong; send it as Authorization: Bearer KEY"
            )
        return "key " + hashlib.sha256(given.encode()).hexdigest()[:8]
