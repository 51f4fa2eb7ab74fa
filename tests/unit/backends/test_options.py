"""Options of encoder, decoder and chip, checked when they are made."""

from __future__ import annotations

import pytest

from whisper_hailo.backends.options import (
    ALONE,
    DECODER_BACKENDS,
    ENCODER_BACKENDS,
    ChipOptions,
    EngineOptions,
)
from whisper_hailo.core.errors import OptionError


def test_engine_options_refuse_unknown_backends() -> None:
    with pytest.raises(
        OptionError, match=f"--encoder-backend .*'gpu'.*{', '.join(ENCODER_BACKENDS)}"
    ):
        EngineOptions(encoder_backend="gpu")
    with pytest.raises(
        OptionError, match=f"--decoder-backend .*''.*{', '.join(DECODER_BACKENDS)}"
    ):
        EngineOptions(decoder_backend="")


@pytest.mark.parametrize("name", ["timeout_s", "open_timeout_s"])
def test_chip_options_times_are_up_to_an_hour(name: str) -> None:
    for seconds in (0.001, 3600.0):
        assert getattr(ChipOptions(**{name: seconds}), name) == seconds
    for seconds in (-0.001, 0.0, 3600.5, float("nan"), float("inf")):
        with pytest.raises(OptionError, match="3600 s"):
            ChipOptions(**{name: seconds})


def test_chip_options_alone_do_not_share_the_chip() -> None:
    assert not ALONE.share
