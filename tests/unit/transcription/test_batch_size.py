"""How many windows are decoded together where nobody says."""

from __future__ import annotations

from pathlib import Path

import pytest

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.spec import Dimensions
from whisper_hailo.transcription import pipeline
from whisper_hailo.transcription.pipeline import (
    MAX_BATCH,
    USUAL_BATCH,
    check_batch_size,
    default_batch_size,
    window_bytes,
)
from whisper_hailo.transcription.transcriber import Transcriber

TINY = Dimensions(80, 1500, 384, 4, 6, 4, 6, 448, 51865)
LARGE = Dimensions(128, 1500, 1280, 32, 20, 32, 20, 448, 51866)


@pytest.fixture
def free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(pipeline, "MEMINFO", tmp_path / "meminfo")
    return tmp_path / "meminfo"


def tell(file: Path, mib: int) -> None:
    file.write_text(f"MemTotal: 9999999 kB\nMemAvailable:  {mib * 1024} kB\nBuffers: 1 kB\n")


@pytest.mark.parametrize(
    ("dims", "mib", "expected"),
    [
        (TINY, 4000, USUAL_BATCH),
        (TINY, 600, 2),
        (TINY, 10, 1),
        (LARGE, 4000, 1),
        (LARGE, 16_000, 4),
    ],
)
def test_as_many_as_are_worth_it_and_fit(
    free: Path, dims: Dimensions, mib: int, expected: int
) -> None:
    tell(free, mib)
    assert default_batch_size(dims) == expected
    assert expected == 1 or expected * window_bytes(dims) <= mib * 2**20 / 4


def test_a_window_is_its_keys_and_values_and_what_the_encoder_makes_of_it() -> None:
    """Tiny: of 4 layers both, for 1500 positions, the padding's and 448 tokens; 16 of features."""
    assert window_bytes(TINY) == 4 * 384 * (4 * 2 * (1500 + 1 + 448) + 16 * 1500)


@pytest.mark.parametrize("content", [None, "", "MemAvailable:", "MemAvailable: many kB"])
def test_where_the_system_does_not_say_it_is_one(free: Path, content: str | None) -> None:
    if content is not None:
        free.write_text(content)
    assert pipeline.available_bytes() is None
    assert default_batch_size(TINY) == 1


@pytest.mark.parametrize("asked", [0, -1, MAX_BATCH + 1])
def test_numbers_that_cannot_be(asked: int) -> None:
    with pytest.raises(OptionError, match=f"--batch-size is {asked}, expected 1 to 256"):
        check_batch_size(asked)


def test_what_is_asked_for_goes_first_and_results_say_what_it_was(free: Path) -> None:
    tell(free, 4000)
    micro = Transcriber.from_model("micro", threads=1)
    assert micro.settings(micro.default_options).batch_size == USUAL_BATCH
    assert micro.settings(micro.default_options, batch_size=7).batch_size == 7
