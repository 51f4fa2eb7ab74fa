"""Options by name, as Python programs give them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest

from whisper_hailo.audio.stream import Samples
from whisper_hailo.backends.options import EngineOptions
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.partial_options import keyword_names
from whisper_hailo.decoding.hotwords import split_hotwords
from whisper_hailo.decoding.options import PRESETS, DecodingOptions
from whisper_hailo.speakers.options import SpeakerOptions
from whisper_hailo.transcription.arguments import (
    merge_model_kwargs,
    merge_transcribe_kwargs,
    with_sample_rate,
)
from whisper_hailo.transcription.longform.options import Clip, LongOptions
from whisper_hailo.transcription.schedule import Progress
from whisper_hailo.transcription.transcriber import Transcriber
from whisper_hailo.transcription.typed_arguments import ModelKwargs, TranscribeKwargs


@dataclass
class Asked:
    """What `transcribe` makes of its keywords."""

    options: DecodingOptions
    long: LongOptions
    progress: Progress | None

    def __init__(self, options: Any, long: Any, names: dict[str, Any]) -> None:
        names = names if long is None else {**names, "long": long}
        self.options, self.long, self.progress = merge_transcribe_kwargs(options, names)


@dataclass
class AskedModel:
    """What `from_model` makes of its keywords."""

    convert: ConvertOptions
    engine: EngineOptions
    threads: int

    def __init__(
        self, convert: Any, engine: Any, threads: int, names: dict[str, Any]
    ) -> None:
        made = merge_model_kwargs(convert, engine, threads, names)
        self.convert, self.engine, self.threads = made


def test_typed_arguments_match_the_accepted_keywords() -> None:
    """An editor offers each field and each name of it, and those of peers that mean something."""
    engine = {*keyword_names(EngineOptions)} | {"quantize", "encoder_quantize", "half"}
    theirs = {"compute_type", "device", "cpu_threads"}
    assert {*get_type_hints(ModelKwargs)} == engine | theirs
    decoding = {*keyword_names(DecodingOptions)} | {*keyword_names(LongOptions)} - {
        "long"
    }
    theirs = {"vad_filter", "without_timestamps", "temperature", "log_progress"}
    theirs |= {"vad_parameters", "multilingual", "hallucination_silence_threshold"}
    ours = {"long", "batch_size", "sample_rate"}
    speakers = {*keyword_names(SpeakerOptions)}
    assert {*get_type_hints(TranscribeKwargs)} == decoding | theirs | ours | speakers


DECODING: list[tuple[dict[str, Any], str, object]] = [
    ({"language": "German"}, "language", "de"),
    ({"task": "translate"}, "task", "translate"),
    ({"word_timestamps": True}, "word_timestamps", True),
    ({"word_timestamps": False}, "word_timestamps", False),
    ({"beam_size": 5}, "search.beam_size", 5),
    ({"beam_size": np.int64(5)}, "search.beam_size", 5),
    ({"temperature": 0.4}, "search.temperatures", (0.4,)),
    ({"temperature": [0, 0.5]}, "search.temperatures", (0.0, 0.5)),
    ({"temperatures": (0.0, 1.0)}, "search.temperatures", (0.0, 1.0)),
    ({"anti_repetition": "balanced"}, "anti_repetition", PRESETS["balanced"]),
    ({"preset": "balanced", "eot_boost": 0.1}, "anti_repetition.eot_boost", 0.1),
    ({"no_speech_threshold": None}, "thresholds.no_speech", None),
    ({"log_prob_threshold": -2}, "thresholds.logprob", -2.0),
    ({"no_repeat_ngram_size": 3}, "limits.no_repeat_ngram", 3),
    ({"suppress_tokens": [-1]}, "limits.suppress", None),
    ({"suppress_tokens": [4, 5]}, "limits.suppress", (4, 5)),
    ({"initial_prompt": "Hello."}, "prompts.initial_prompt", "Hello."),
    ({"max_initial_timestamp": 0.5}, "max_initial_timestamp_s", 0.5),
]


@pytest.mark.parametrize(("names", "path", "expected"), DECODING)
def test_decoding_keywords_set_options_by_every_name(
    names: dict[str, Any], path: str, expected: object
) -> None:
    assert attrgetter(path)(Asked(DecodingOptions(), None, names).options) == expected


@pytest.mark.parametrize(
    ("names", "path", "expected"),
    [
        ({"overlap_s": 3}, "overlap_s", 3.0),
        ({"clip_timestamps": [1, 2]}, "clips", (Clip(16_000, 32_000),)),
        ({"clip_timestamps": "1,2"}, "clips", (Clip(16_000, 32_000),)),
        ({"vad_threshold": 0.4}, "vad_threshold", 0.4),
    ],
)
def test_long_keywords_set_options(
    names: dict[str, Any], path: str, expected: object
) -> None:
    assert attrgetter(path)(Asked(DecodingOptions(), None, names).long) == expected


def test_long_accepts_the_name_of_a_strategy() -> None:
    asked = Asked(DecodingOptions(), "vad", {"min_silence_s": 1})
    assert asked.long == LongOptions(strategy="vad", min_silence_s=1.0)
    base = LongOptions(strategy="overlap", overlap_s=4)
    assert Asked(DecodingOptions(), base, {"overlap_s": 1}).long.strategy == "overlap"


@pytest.mark.parametrize("before", [True, False])
def test_without_timestamps_inverts_timestamps(before: bool) -> None:
    base = DecodingOptions(timestamps=before)
    for without in (True, False):
        asked = Asked(base, None, {"without_timestamps": without})
        assert asked.options.timestamps is not without
    assert Asked(base, None, {}).options.timestamps is before


@pytest.mark.parametrize(
    ("names", "quantize", "backend"),
    [
        ({"compute_type": "auto", "device": "auto"}, "int4", "hailo"),
        ({"compute_type": "default"}, "int4", "hailo"),
        ({"compute_type": "int8"}, "int8", "hailo"),
        ({"compute_type": "float32"}, "none", "hailo"),
        ({"compute_type": "float16"}, "none", "hailo"),
        ({"compute_type": "int8_float16"}, "int8", "hailo"),
        ({"device": "cpu"}, "int4", "onnx"),
    ],
)
def test_compute_type_and_device_are_translated(
    names: dict[str, Any], quantize: str, backend: str
) -> None:
    model = AskedModel(
        ConvertOptions("int4"), EngineOptions(encoder_backend="hailo"), 0, names
    )
    assert model.convert.quantize == quantize
    assert model.engine.encoder_backend == backend


def test_keywords_of_faster_whisper_are_translated() -> None:
    assert Asked(DecodingOptions(), None, {"vad_filter": True}).long.strategy == "vad"
    assert Asked(DecodingOptions(), None, {"vad_filter": False}).long.strategy == "auto"
    assert Asked(
        DecodingOptions(), None, {"without_timestamps": False}
    ).options.timestamps
    names = {"without_timestamps": False, "timestamps": False}
    assert not Asked(DecodingOptions(), None, names).options.timestamps, (
        "ours goes before it"
    )
    assert (
        Asked(DecodingOptions("de"), None, {"language": None}).options.language
        == "auto"
    )
    names = {"device": "cpu", "compute_type": "float32", "cpu_threads": 3}
    model = AskedModel(ConvertOptions(), EngineOptions(), 0, names)
    assert model.threads == 3
    assert model.convert.quantize == "none"
    assert model.engine.encoder_backend == "onnx"


def test_vad_parameters_are_our_options() -> None:
    @dataclass
    class VadOptions:
        threshold: float = 0.5
        min_silence_duration_ms: int = 2000
        max_speech_duration_s: float = float("inf")

    for parameters in (VadOptions(), vars(VadOptions())):
        long = Asked(DecodingOptions(), None, {"vad_parameters": parameters}).long
        assert long.vad_threshold == 0.5
        assert long.min_silence_s == 2.0
    long = Asked(DecodingOptions(), None, {"vad_parameters": None}).long
    assert long == LongOptions()


@pytest.mark.parametrize(
    ("words", "phrases"),
    [
        (["New York"], ["New York"]),
        (("Ada", "New York"), ["Ada", "New York"]),
        ([], []),
    ],
)
def test_hotwords_of_a_list_are_phrases(
    words: Sequence[str], phrases: list[str]
) -> None:
    prompts = Asked(DecodingOptions(), None, {"hotwords": words}).options.prompts
    assert split_hotwords(prompts.hotwords or "") == phrases


def test_keywords_without_effect_are_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    keywords = {"hallucination_silence_threshold": 2.0, "prepend_punctuations": None}
    assert Asked(DecodingOptions(), None, keywords).options == DecodingOptions()
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_keywords_override_given_options() -> None:
    base = DecodingOptions(language="fr", task="translate")
    assert Asked(base, None, {"language": "de"}).options.task == "translate"


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ({"beam_size": "5"}, "beam_size is '5'"),
        ({"beam_size": 2.5}, "beam_size is 2.5"),
        ({"beam_size": 0}, "--beam-size is 0"),
        ({"language": 3}, "language is 3"),
        ({"log_progress": 1}, "log_progress is 1"),
        ({"word_timestamps": "yes"}, "word_timestamps is 'yes'"),
        ({"timestamps": 1}, "timestamps is 1"),
        ({"temperature": "hot"}, r"temperatures\[0\] is 'hot'"),
        ({"preset": "mild"}, "--preset is 'mild'"),
        ({"no_speech_threshold": "low"}, "is 'low'"),
        ({"task": "listen"}, "--task is 'listen'"),
        ({"beamsize": 5}, "beamsize.* beam_size"),
        ({"word_timestamp": True}, "word_timestamps"),
        ({"frobnicate": 1}, "frobnicate"),
        ({"vad_filter": 1}, 'long="vad"'),
        ({"vad_parameters": {"min_silence": 2.0}}, "min_silence_duration_ms"),
        ({"vad_parameters": "0.5"}, "vad_parameters"),
        ({"hotwords": ["Vienna", 3]}, "hotwords has 3"),
        ({"verbose": True}, "progress"),
    ],
)
def test_wrong_keywords_are_refused_by_name(names: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        Asked(DecodingOptions(), None, names)


@pytest.mark.parametrize("options", ["de", {"language": "de"}])
def test_options_of_another_type_are_refused(options: Any) -> None:
    with pytest.raises(OptionError, match="DecodingOptions"):
        Asked(options, None, {})
    with pytest.raises(OptionError, match="LongOptions"):
        Asked(DecodingOptions(), {"overlap_s": 2}, {})  # type: ignore[arg-type]


def test_model_keywords_set_options() -> None:
    asked = AskedModel(
        ConvertOptions(),
        EngineOptions(),
        2,
        {
            "quantize": "none",
            "encoder_backend": "onnx",
            "decoder": "x.onnx",
            "share": True,
        },
    )
    assert asked.convert == ConvertOptions("none")
    assert asked.engine.encoder_backend == "onnx"
    assert asked.engine.decoder == Path("x.onnx")
    assert asked.engine.hailo.share
    assert asked.threads == 2


@pytest.mark.parametrize("names", [{"cpu_threads": -1}, {"cpu_threads": "two"}])
def test_threads_of_either_name_are_checked(names: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=r"threads is .*256"):
        AskedModel(ConvertOptions(), EngineOptions(), 0, names)


def test_log_progress_logs_seconds(caplog: pytest.LogCaptureFixture) -> None:
    for names in ({}, {"log_progress": False}):
        assert Asked(DecodingOptions(), None, dict(names)).progress is None
    progress = Asked(DecodingOptions(), None, {"log_progress": True}).progress
    assert progress is not None
    with caplog.at_level("INFO", "whisper_hailo"):
        progress(10.0, 60.0)
        progress(20.0, None)
    assert caplog.messages == ["10 s of 60 s", "20 s"]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ({"compute_type": "int4"}, "compute_type.* quantize"),
        ({"device": "cuda"}, "device.* encoder_backend"),
        ({"quantise": "int8"}, "quantise.* quantize"),
        ({"quantize": "int3"}, "--quantize is 'int3'"),
        ({"threads": "4"}, "threads is '4'"),
        ({"threads": 1000}, "threads is 1000"),
    ],
)
def test_from_model_refuses_wrong_keywords_first(
    names: dict[str, Any], said: str
) -> None:
    with pytest.raises(OptionError, match=said):
        Transcriber.from_model("no-such-model", **names)


def test_with_sample_rate_refuses_files_and_fractions() -> None:
    audio = np.zeros(8, np.float32)
    assert with_sample_rate(audio, None) is audio
    assert with_sample_rate(audio, 16_000) is audio
    samples = with_sample_rate(audio, 8_000)
    assert isinstance(samples, Samples)
    assert samples.sample_rate_hz == 8_000
    for rate_hz in (8_000, 16_000):
        with pytest.raises(OptionError, match="sample_rate"):
            with_sample_rate("a.wav", rate_hz)
    with pytest.raises(OptionError, match=r"sample_rate is 8000\.0"):
        with_sample_rate(audio, 8_000.0)  # type: ignore[arg-type]
