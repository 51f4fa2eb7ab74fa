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
from whisper_hailo.core.types import Settings, Timings, Transcript
from whisper_hailo.decoding.options import AntiRepetition, DecodingOptions
from whisper_hailo.transcription.longform.options import LongOptions
from whisper_hailo.transcription.transcriber import Transcriber
from whisper_hailo_lab.cli.time import timing_json, timing_text
from whisper_hailo_lab.runs.machine import Machine
from whisper_hailo_lab.timing.one_file import (
    COLUMNS,
    N_WARM_UPS,
    FileTiming,
    PassClock,
    Spread,
    report_table,
    time_file,
)

N_TOKENS = 5
OPTIONS = DecodingOptions(
    max_new_tokens=N_TOKENS, anti_repetition=AntiRepetition(repetition_penalty=1.5)
)
BOARD = Machine(
    cpu="Cortex-A76",
    n_cpus=4,
    memory_gib=8,
    architecture="aarch64",
    board="Raspberry Pi 5 | Rev 1.0",
    accelerator="/dev/hailo0",
)
SETTINGS = Settings(
    model="base",
    encoder="onnx-int8",
    decoder="cached-int8",
    window_s=20.0,
    margin_s=0.0,
    pad_to=0,
    repetition_penalty=1.0,
    eot_boost=0.0,
    quantization="int8",
    threads=4,
)
TRANSCRIPT = Transcript(
    audio="jfk.flac",
    duration_s=30.0,
    language="en",
    task="transcribe",
    segments=(),
    timings=Timings(),
    settings=SETTINGS,
)
TIMING = FileTiming(
    transcript=TRANSCRIPT,
    iterations=1,
    stages_ms={"total": Spread.of([1500.0, 2000.0, 9000.0])},
    processor_ms=Spread.of([5000.0, 6000.0, 6500.0]),
    token_ms=(),
    memory={},
    peak_mib=249.6,
    temperature_c=(),
    machine=BOARD,
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


@pytest.mark.slow
def test_spread_std_is_of_the_population() -> None:
    spread = Spread.of([1.0, 2.0, 6.0])
    assert spread.mean == 3
    assert spread.min == 1
    assert spread.max == 6
    assert spread.median == 2
    assert spread.n == 3
    assert spread.std == pytest.approx(statistics.pstdev([1, 2, 6]))
    assert Spread.of([4.0]).std == 0


@pytest.mark.slow
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


@pytest.mark.slow
def test_time_file_has_a_time_for_every_token(timing: FileTiming) -> None:
    n_windows = 3  # one second of audio each: a 2 s window keeps its last second free
    n_tokens = timing.stages_ms["per token"].n / timing.iterations
    assert n_tokens == len(timing.token_ms[0]) <= n_windows * (N_TOKENS - 1)
    assert len({len(tokens) for tokens in timing.token_ms}) == 1
    assert timing.stages_ms["further tokens"].max == pytest.approx(
        max(sum(tokens) for tokens in timing.token_ms)
    )


@pytest.mark.slow
def test_time_file_has_the_memory_of_each_part(timing: FileTiming) -> None:
    assert list(timing.memory) == ["encoder", "decoder"]
    for part in timing.memory.values():
        assert part.total == part.load + part.warm_up
    assert timing.peak_mib > timing.memory["decoder"].load
    assert timing.temperature_c == ()
    assert timing.processor_ms.n == timing.iterations


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_time_file_refuses_before_it_loads(micro: Path) -> None:
    transcriber = Transcriber.from_model(str(micro), threads=1)
    with pytest.raises(AudioError):
        time_file(transcriber, "nowhere.wav", OPTIONS, 1)
    with pytest.raises(OptionError, match="unknown language"):
        time_file(transcriber, "nowhere.wav", DecodingOptions(language="xx"), 1)


@pytest.mark.slow
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


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|\n ").split("|")]


def test_report_table_has_medians_a_minute() -> None:
    heading, rule, row = report_table(TIMING, ["NEON", "float16"]).splitlines()
    assert tuple(_cells(heading)) == COLUMNS
    assert len(_cells(rule)) == len(COLUMNS)
    cells = dict(zip(COLUMNS, _cells(row), strict=True))
    assert cells["processor s a minute"] == "12.0"
    assert cells["seconds a minute"] == "4.0"
    assert cells["peak MiB"] == "250"
    assert cells["model"] == "base, int8"
    assert cells["instruction sets"] == "NEON, float16"
    for part in ("Raspberry Pi 5", "Cortex-A76", "4 cores", "hailo0"):
        assert part in cells["processor"]


@pytest.mark.parametrize(("threads", "expected"), [(0, "automatic"), (2, "2")])
def test_report_table_names_the_threads(threads: int, expected: str) -> None:
    settings = replace(SETTINGS, threads=threads)
    timing = replace(TIMING, transcript=replace(TRANSCRIPT, settings=settings))
    row = report_table(timing, []).splitlines()[-1]
    assert dict(zip(COLUMNS, _cells(row), strict=True))["threads"] == expected
