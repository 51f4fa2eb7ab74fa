from __future__ import annotations

import statistics
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.shared import converted
from whisper_hailo.backends.options import EngineOptions
from whisper_hailo.checkpoint.hub import ASSETS
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.core.errors import AudioError, OptionError
from whisper_hailo.decoding.options import AntiRepetition, DecodingOptions
from whisper_hailo.transcription.longform.options import LongOptions
from whisper_hailo.transcription.transcriber import Transcriber
from whisper_hailo_lab.cli.time import timing_json, timing_text
from whisper_hailo_lab.timing.one_file import (
    N_WARM_UPS,
    FileTiming,
    PassClock,
    Spread,
    time_file,
)

pytestmark = pytest.mark.slow  # whole recordings, several times each

N_TOKENS = 5
OPTIONS = DecodingOptions(
    max_new_tokens=N_TOKENS, anti_repetition=AntiRepetition(repetition_penalty=1.5)
)


@pytest.fixture(scope="module")
def micro(shared: Path) -> Path:
    return converted(
        shared, ASSETS / "micro", ConvertOptions("none", hailo=HailoOptions(2, 16))
    )


@pytest.fixture(scope="module", params=["cached", "fixed"])
def timing(request: pytest.FixtureRequest, micro: Path) -> FileTiming:
    engine = EngineOptions(decoder_backend=request.param)
    transcriber = Transcriber.from_model(
        str(micro), window_s=2, threads=1, engine=engine
    )
    noise = (
        np.random.default_rng(0).standard_normal(16_000 * 3).astype(np.float32) * 0.1
    )
    return time_file(transcriber, noise, OPTIONS, iterations=3)


def test_spread_std_is_of_the_population() -> None:
    spread = Spread.of([1.0, 2.0, 6.0])
    assert spread.mean == 3
    assert spread.min == 1
    assert spread.max == 6
    assert spread.median == 2
    assert spread.n == 3
    assert spread.std == pytest.approx(statistics.pstdev([1, 2, 6]))
    assert Spread.of([4.0]).std == 0


def test_time_file_has_each_stage_once_an_iteration(timing: FileTiming) -> None:
    stages = timing.stages_ms
    assert {name: spread.n for name, spread in stages.items() if name != "per token"} == {
        "load": 1, "mel": 3, "encode": 3, "cross K/V": 3, "first token": 3, "further tokens": 3,
        "text": 3, "decoder, all of it": 3, "total": 3,
    }  # fmt: skip
    assert all(0 <= s.min <= s.median <= s.max for s in stages.values())
    parts = ("cross K/V", "first token", "further tokens")
    assert sum(stages[name].mean for name in parts) <= stages["decoder, all of it"].mean
    together = ("mel", "encode", "decoder, all of it")
    assert sum(stages[name].mean for name in together) <= stages["total"].mean


def test_time_file_has_a_time_for_every_token(timing: FileTiming) -> None:
    n_windows = 3  # one second of audio each: a 2 s window keeps its last second free
    n_tokens = timing.stages_ms["per token"].n / timing.iterations
    assert n_tokens == len(timing.token_ms[0]) <= n_windows * (N_TOKENS - 1)
    assert len({len(tokens) for tokens in timing.token_ms}) == 1
    assert timing.stages_ms["further tokens"].max == pytest.approx(
        max(sum(tokens) for tokens in timing.token_ms)
    )


def test_time_file_has_the_memory_of_each_part(timing: FileTiming) -> None:
    assert list(timing.memory) == ["encoder", "decoder"]
    for part in timing.memory.values():
        assert part.total == part.load + part.warm_up
    assert timing.peak_mib > timing.memory["decoder"].load
    assert timing.temperature_c == ()
    assert timing.processor_ms.n == timing.iterations


def test_timing_text_has_all_stages(timing: FileTiming) -> None:
    text = timing_text(timing)
    raw = timing_json(timing)
    for name, spread in timing.stages_ms.items():
        assert f"{spread.mean:.2f}" in next(
            x for x in text.splitlines() if x.startswith(name)
        )
        assert raw["stages_ms"][name]["n"] == spread.n
    assert raw["memory_mib"]["peak"] == timing.peak_mib
    assert raw["settings"]["decoder"] in text


def test_pass_clock_ignores_language_detection(micro: Path) -> None:
    transcriber = Transcriber.from_model(str(micro), window_s=2, threads=1)
    pass_clock = PassClock(transcriber.decoder)  # type: ignore[arg-type]
    options = DecodingOptions(language="auto", max_new_tokens=3)
    noise = np.random.default_rng(0).standard_normal(16_000).astype(np.float32) * 0.1
    with replace(transcriber, decoder=pass_clock, encode_ahead=False) as opened:
        opened.transcribe(noise, options, long=LongOptions(skip_silence=False))
        assert len(pass_clock.first_ms) == 1
        assert len(pass_clock.token_ms) <= 2
        pass_clock.forget()
        assert not pass_clock.first_ms + pass_clock.token_ms


def test_time_file_refuses_before_it_loads(micro: Path) -> None:
    transcriber = Transcriber.from_model(str(micro), threads=1)
    with pytest.raises(AudioError):
        time_file(transcriber, "nowhere.wav", OPTIONS, 1)
    with pytest.raises(OptionError, match="unknown language"):
        time_file(transcriber, "nowhere.wav", DecodingOptions(language="xx"), 1)


def test_time_file_reports_warm_ups_as_progress(micro: Path) -> None:
    calls: list[tuple[int, int]] = []
    transcriber = Transcriber.from_model(str(micro), window_s=2, threads=1)
    silence = np.zeros(16_000, np.float32)
    time_file(
        transcriber,
        silence,
        OPTIONS,
        2,
        lambda done, n_all, _: calls.append((done, n_all)),
    )
    assert calls == [(i + 1, N_WARM_UPS + 2) for i in range(N_WARM_UPS + 2)]
