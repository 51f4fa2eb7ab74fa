"""The clock of a busy machine."""

from __future__ import annotations

import time

from whisper_hailo.core import timing
from whisper_hailo_lab.runs.machine import by_processor_time


def test_stages_are_timed_by_the_processor_only_meanwhile() -> None:
    before = vars(timing)["perf_counter"]
    with by_processor_time():
        assert vars(timing)["perf_counter"] is time.process_time
    assert vars(timing)["perf_counter"] is before is time.perf_counter
