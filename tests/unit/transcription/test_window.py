"""Windows that are cut behind their audio."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from tests.fakes.engine import RecordingEncoder
from tests.fakes.model_sizes import toy_spec
from whisper_hailo.audio import load_audio
from whisper_hailo.audio.log_mel import log_mel
from whisper_hailo.audio.windows import Window, WindowPlan
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription import decoder_engine
from whisper_hailo.transcription.longform.options import LongOptions
from whisper_hailo.transcription.stages import Stages
from whisper_hailo.transcription.transcriber import Transcriber
from whisper_hailo.transcription.window import Context, WindowRequest
from whisper_hailo_lab.clip_archives import unpack_clips

TRIMMED = LongOptions(trim_window=True)
WHOLE = LongOptions(trim_window=False)


@pytest.fixture(scope="module")
def speech() -> FloatArray:
    return load_audio(unpack_clips() / "seen" / "seen-000.ogg")[: 4 * SAMPLE_RATE_HZ]


def test_trimmed_recording_encodes_its_audio_only(
    micro: Transcriber, speech: FloatArray
) -> None:
    watched = RecordingEncoder(micro.encoder)
    eared = replace(micro, encoder=watched)  # type: ignore[arg-type]
    options = DecodingOptions(language="en")
    full = eared.transcribe(speech, options, long=WHOLE)
    trimmed = eared.transcribe(speech, options, long=TRIMMED)
    assert watched.shapes == [(1, 80, 2000), (1, 80, 600)]
    everything = replace(TRIMMED, skip_silence=False)
    eared.transcribe(np.zeros(160, np.float32), options, long=everything)
    assert watched.shapes[-1] == (1, 80, 300)
    assert full.text
    assert trimmed.text
    assert not full.settings.trim_window
    assert trimmed.settings.trim_window


def test_batch_trims_each_window_by_itself(
    micro: Transcriber, speech: FloatArray
) -> None:
    watched = RecordingEncoder(micro.encoder)
    eared = replace(micro, encoder=watched, encode_ahead=False)  # type: ignore[arg-type]
    options = DecodingOptions(language="en", max_new_tokens=3)
    several = [speech[: seconds * SAMPLE_RATE_HZ] for seconds in (2, 4, 1)]
    outcomes = list(eared.transcribe_many(several, options, long=TRIMMED, batch_size=3))
    assert [type(outcome).__name__ for outcome in outcomes] == ["Transcript"] * 3
    assert watched.shapes == [(1, 80, 400), (1, 80, 600), (1, 80, 300)]


@dataclass
class Ears:
    """An encoder that keeps what it is given."""

    spec: ModelSpec
    heard: list[FloatArray] = field(default_factory=list)

    def encode(self, mel: FloatArray) -> FloatArray:
        self.heard.append(mel)
        return mel


@pytest.mark.parametrize("n_mels", [80, 128])
@pytest.mark.parametrize(("trim_window", "seconds"), [(False, 4), (True, 3)])
def test_mel_of_trimmed_window_is_that_of_it_alone(
    n_mels: int, trim_window: bool, seconds: int
) -> None:
    """Whatever it is batched with; the log-mel is of the audio with its silence."""
    ears = Ears(replace(toy_spec(), dims=replace(toy_spec().dims, n_mels=n_mels)))
    stages = Stages(ears, None, WindowPlan(4.0, 1.0, trim_window))  # type: ignore[arg-type]
    noise = np.random.default_rng(0).standard_normal(SAMPLE_RATE_HZ).astype(np.float32)
    batch = [noise, noise[:8_100] / 1000]
    stages.encode([WindowRequest(Window(audio, 0.0), Context("en")) for audio in batch])
    for (mel,), audio in zip(ears.heard, batch, strict=True):
        whole = np.zeros(seconds * SAMPLE_RATE_HZ, np.float32)
        whole[: audio.size] = audio
        np.testing.assert_array_equal(mel, log_mel(whole, n_mels))


def test_trim_of_full_window_changes_nothing(
    micro: Transcriber, speech: FloatArray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Speech without text is decoded in windows that are not full, so there is none."""
    monkeypatch.setattr(decoder_engine, "find_untranscribed", lambda *_: ())
    options = DecodingOptions(language="en")
    full = np.tile(speech, 8)[: round(micro.content_s * SAMPLE_RATE_HZ)]
    trimmed, whole = (
        micro.transcribe(full, options, long=long) for long in (TRIMMED, WHOLE)
    )
    assert trimmed.text == whole.text != ""


def test_fixed_encoder_refuses_trim_window(
    micro: Transcriber, speech: FloatArray
) -> None:
    fixed = replace(micro, encoder=RecordingEncoder(micro.encoder, 1000))  # type: ignore[arg-type]
    english = DecodingOptions(language="en")
    refusal = "trim-window .*1000 frames"
    with pytest.raises(OptionError, match=refusal):
        fixed.check(english, TRIMMED)  # as the command does, before it opens anything
    with pytest.raises(OptionError, match=refusal):
        fixed.transcribe(speech, english, long=TRIMMED)
    fixed.check(english)


class FrameEars(Ears):
    """Gives each frame back as a position."""

    def encode(self, mel: FloatArray) -> FloatArray:
        return np.swapaxes(super().encode(mel), 1, 2)


def test_features_of_trimmed_windows_are_padded() -> None:
    ears = FrameEars(replace(toy_spec(), dims=replace(toy_spec().dims, n_mels=80)))
    stages = Stages(ears, None, WindowPlan(4.0, 1.0, trim_window=True))  # type: ignore[arg-type]
    batch = [np.ones(seconds * SAMPLE_RATE_HZ, np.float32) for seconds in (2, 1)]
    encoded = stages.encode(
        [WindowRequest(Window(audio, 0.0), Context("en")) for audio in batch]
    )
    assert encoded.features is not None
    assert encoded.n_positions is not None
    assert encoded.n_positions.tolist() == [400, 300]
    for row, mel in zip(encoded.features, ears.heard, strict=True):
        np.testing.assert_array_equal(row[: mel.shape[2]], mel[0].T)
        assert not row[mel.shape[2] :].any()
