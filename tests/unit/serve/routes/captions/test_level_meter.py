"""The level meter."""

from __future__ import annotations

import numpy as np
import pytest

from whisper_hailo.serve.routes.captions.level_meter import SILENCE_DB, LevelMeter


def test_level_meter_in_pieces_reads_eighths_of_a_second() -> None:
    meter = LevelMeter()
    wave = np.sin(np.arange(2000) * (2 * np.pi / 20)).astype(np.float32)
    readings = [meter.level_db(piece) for piece in np.split(wave, 4)]
    assert readings[:3] == [None] * 3
    assert readings[3] == pytest.approx(-3.01, abs=0.01)
    for level_meter in (meter, LevelMeter()):
        assert level_meter.level_db(wave[:1999]) is None


def test_level_meter_readings_are_clamped() -> None:
    meter = LevelMeter()
    assert meter.level_db(np.zeros(2000, np.float32)) == SILENCE_DB
    assert meter.level_db(np.full(2000, 1e-7, np.float32)) == SILENCE_DB
    assert meter.level_db(np.full(2000, 3.0, np.float32)) == 0.0
