"""Warnings about captions that fall behind the speaker."""

from __future__ import annotations

import logging

import pytest

from whisper_hailo.cli.caption_views import LatencyWarning
from whisper_hailo.live.events import Completed, Started
from whisper_hailo.live.statistics import CaptionStatistics


def test_latency_warning_late_captions_warn_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    statistics = CaptionStatistics()
    warning = LatencyWarning(statistics)
    final = Completed(
        segment_id=0,
        start_s=0.0,
        end_s=1.0,
        words=(),
        reason="silence",
        heard_s=1.0,
        at_s=1.0,
    )
    warned = []
    with caplog.at_level(logging.WARNING):
        for behind_s in (0.2, 5.0, 27.2, 9.0, 0.9, 28.0):
            statistics.behind_s = behind_s
            warning.put(Started(segment_id=1, start_s=0, heard_s=0, at_s=0))
            assert len(caplog.records) == sum(warned)
            warning.put(final)
            warned.append(len(caplog.records) > sum(warned))
    assert warned == [False, False, True, False, False, False]
    assert "27 s" in caplog.messages[-1]
