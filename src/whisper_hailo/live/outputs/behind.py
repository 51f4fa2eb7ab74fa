"""Tells when captions fall behind what is said."""

from __future__ import annotations

import logging
from typing import Final

from whisper_hailo.live.events import Completed, Event
from whisper_hailo.live.statistics import CaptionStatistics

logger = logging.getLogger(__name__)

BEHIND_S: Final = 5.0
"""Whoever reads has lost the speaker by then."""

_CAUGHT_UP_S: Final = 1.0


class BehindWarning:
    """An event sink that says so once each time, and what to do.

    Args:
        statistics: of the captioner whose events it is shown.
    """

    def __init__(self, statistics: CaptionStatistics) -> None:
        self._statistics = statistics
        self._is_told = False

    def put(self, event: Event) -> None:
        """Look how late a final text came."""
        if not isinstance(event, Completed):
            return
        behind_s = self._statistics.behind_s
        if behind_s > BEHIND_S and not self._is_told:
            self._is_told = True
            logger.warning(
                "captions are %.0f s behind what is said: this machine has too much to compute; "
                "take a smaller --model, --min-partial 1, or end other programs",
                behind_s,
            )
        elif behind_s < _CAUGHT_UP_S:
            self._is_told = False
