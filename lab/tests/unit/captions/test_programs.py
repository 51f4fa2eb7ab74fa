"""Captions of other programs: what their output says."""

from __future__ import annotations

import pytest

from whisper_hailo.core.errors import OptionError
from whisper_hailo_lab.captions.latency import Shown
from whisper_hailo_lab.captions.programs import VARIABLE, find_folder, read_output


def test_read_output_joins_texts_and_skips_other_lines() -> None:
    output = "\n".join(
        (
            "warm",
            '{"at_s": 1.5, "text": " And so"}',
            '{"at_s": 2.5, "text": " my"}',
            '{"processor_s": 3.0, "seconds": 2.0}',
        )
    )
    shown, processor_s = read_output(output)
    assert shown == [Shown(1.5, " And so", ""), Shown(2.5, " And so my", "")]
    assert processor_s == 3.0


def test_find_folder_without_the_variable_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(OptionError, match=VARIABLE):
        find_folder()
