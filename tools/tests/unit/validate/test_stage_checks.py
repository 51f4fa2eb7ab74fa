"""What a kind is compared with, and what its verdict and its agreement count."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tools.tests.unit.validate.fake_runs import (
    FEATURES,
    SHOWN,
    WINDOWS,
    MadeUpRun,
    best,
    made_up_reference,
)
from whisper_hailo.audio.log_mel import log_mel
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo_tools.difference import difference
from whisper_hailo_tools.validate import stage_checks
from whisper_hailo_tools.validate.stage_checks import (
    Agreement,
    FormChecks,
    FormResult,
    LayerResult,
    Limit,
    limit_of,
    try_decoder,
    try_encoder,
    try_mel,
)
from whisper_hailo_tools.validate.validate import ParityReport

TRUE = best([0, 1, 2, 3, 0], [1, 2, 0, 0, 0])
WITHIN = Limit(20.0)


def test_try_encoder_compares_a_decoders_tokens() -> None:
    spoiled = FEATURES.copy()
    spoiled[1] += 10  # of the largest value, 12

    def judged(features: Any) -> Any:
        logits = TRUE.copy()
        if features[1, 0, 0] != FEATURES[1, 0, 0]:
            logits[1] = best([3] * 5)[0]
        return logits

    judge: Any = MadeUpRun(says=judged)
    run: Any = MadeUpRun("spoiled", says=spoiled)
    form_result = try_encoder("float32", run, made_up_reference(TRUE), judge, WITHIN)
    assert form_result.status == "failed"
    assert form_result.graph == "spoiled"
    assert form_result.difference is not None
    assert form_result.difference.relative == pytest.approx(10 / 12)
    # Two tokens of the first row follow its prefix, the text and the end; one of the second.
    assert form_result.tokens == Agreement(2, 3)
    good: Any = MadeUpRun(says=FEATURES)
    assert (
        try_encoder("float32", good, made_up_reference(TRUE), judge, WITHIN).status
        == "passed"
    )


def test_try_decoder_compares_rows_up_to_their_zeros() -> None:
    shifted_logits = TRUE + np.float32(0.07)
    # behind the tokens of each row
    shifted_logits[0, 4:] = 1e3
    shifted_logits[1, 3:] = 1e3
    run: Any = MadeUpRun(pad_to=7, says=shifted_logits)
    reference = made_up_reference(TRUE)
    reference.logits(0)  # kept for other rungs
    form_result = try_decoder("float32", run, reference, WITHIN)
    assert form_result.difference is not None
    assert form_result.difference.max_abs == pytest.approx(0, abs=1e-6)
    assert form_result.status == "passed"
    assert form_result.tokens == Agreement(3, 3)
    # Chooses the only word of the second row.
    shifted_logits[1, 1] = best([3] * 5)[0, 0] + np.float32(0.07)
    worse = try_decoder("float32", run, reference, WITHIN)
    assert worse.status == "failed"
    assert worse.tokens == Agreement(2, 3)


def test_deciding_positions_are_those_of_the_text() -> None:
    assert list(SHOWN.deciding_positions()) == [(0, 1), (0, 2), (1, 1)]


def test_try_encoder_and_decoder_compare_stages_by_name() -> None:
    mel = WINDOWS.mel[0]
    stage_outputs = {"embedded": mel + 1, "525": mel * 2 + 1}
    run: Any = MadeUpRun(held=stage_outputs, names={"features": "525"})
    reference = made_up_reference(TRUE)
    run.says = FEATURES
    judge = cast("Any", MadeUpRun(says=TRUE))
    first, last = try_encoder("float32", run, reference, judge, WITHIN).layers
    assert first.name == "embedded"
    assert first.snr_db == math.inf
    # Twice 0 to 5 against one too many each: 4 (0 + 1 + 4 + 9 + 16 + 25) over 6.
    assert last.name == "features"
    assert last.snr_db == pytest.approx(10 * math.log10(220 / 6))
    np.testing.assert_array_equal(run.fed[0][0], mel)
    tokens = SHOWN.tokens[0]
    stage_outputs = {"embedded": tokens + 7.0, "logits": FEATURES[0]}
    decoder: Any = MadeUpRun(pad_to=7, says=TRUE, held=stage_outputs)
    layers = try_decoder("float32", decoder, reference, WITHIN).layers
    assert [layer.snr_db for layer in layers] == [math.inf, math.inf]
    for received, expected in zip(decoder.fed[0], (tokens, FEATURES[0]), strict=True):
        np.testing.assert_array_equal(received, expected)


def test_limit_of_form_gets_stricter_with_its_bits() -> None:
    exact = limit_of("float32", "none")
    assert exact == limit_of("hailo-form", "int8")
    limits = [
        exact,
        limit_of("quantised", "int8"),
        limit_of("quantised", "int4"),
        limit_of("hef", "int8"),
    ]
    assert limits[-1] == limit_of("emulated", "int8")
    for stricter, looser in pairwise(limits):
        assert stricter.snr_db > looser.snr_db


def test_limit_holds_in_decibels_and_tokens() -> None:
    # Energy 1 and a hundredth of noise, 20 dB.
    error = difference(np.array([1.0, 0.1]), np.array([1.0, 0.0]))
    assert Limit(20, 0.9).holds(error, Agreement(18, 20))
    assert not Limit(20, 0.9).holds(error, Agreement(17, 20))
    assert Limit(20, 0.9).holds(error, Agreement(4, 5)), "one of few may differ"
    assert not Limit(20.1, 0.9).holds(error, Agreement(20, 20))
    assert Limit(20, 0.9).holds(error, None)


def test_try_mel_fails_for_another_spectrogram() -> None:
    audio = np.random.default_rng(0).standard_normal(16_000).astype(np.float32)
    mel = log_mel(audio)[np.newaxis]
    assert try_mel([audio], mel).status == "passed"
    assert try_mel([audio], mel + 0.01).status == "failed"
    assert try_mel([audio], np.roll(mel, 1, axis=2)).status == "failed"


def test_report_passes_without_failures() -> None:
    def report(*statuses: str) -> ParityReport:
        results = tuple(
            FormResult("float32", "encoder", status, "") for status in statuses
        )
        return replace(empty, results=results)

    empty = ParityReport("m", "r", 2.0, (), {}, {}, ())
    assert report("passed", "not run").passed
    assert not report("passed", "failed").passed


def test_steepest_fall_is_between_neighbours() -> None:
    def fall(*ratios: float) -> tuple[str, str] | None:
        layers = tuple(LayerResult(str(n), ratio) for n, ratio in enumerate(ratios))
        form_result = FormResult(
            "float32", "encoder", "failed", "", layers=layers
        ).steepest_fall
        return (
            None if form_result is None else (form_result[0].name, form_result[1].name)
        )

    assert fall(120.0, 118.0, 40.0, 30.0) == ("1", "2")
    assert fall(math.inf, 100.0, 40.0) == ("0", "1")
    assert fall(20.0, 30.0) is None
    assert fall() is None


class EncoderRun(SimpleNamespace):
    pass


class Climbed:
    """What was tried while a ladder was climbed; a run is its name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        put = monkeypatch.setattr
        put(stage_checks, "EncoderRun", EncoderRun)
        put(
            stage_checks,
            "cached_encoder",
            lambda folder: EncoderRun(graph=f"{folder}/encoder"),
        )
        put(
            stage_checks,
            "cached_decoder",
            lambda folder: SimpleNamespace(graph=f"{folder}/decoder"),
        )
        put(
            stage_checks,
            "hailo_encoder_run",
            lambda *path: EncoderRun(graph=self._form(*path)),
        )
        put(
            stage_checks,
            "hailo_decoder_run",
            lambda *path: SimpleNamespace(graph=self._form(*path)),
        )
        put(stage_checks, "emulated_plan", lambda *_: "norms16")
        put(stage_checks, "find_npu", lambda: (None, "no Hailo chip"))
        put(stage_checks, "try_encoder", self._tried_encoder)
        put(
            stage_checks,
            "try_decoder",
            lambda kind, run, reference, limit: self._tried(
                kind, "decoder", run, limit
            ),
        )

    def _tried_encoder(
        self, kind: str, run: Any, reference: object, judge: Any, limit: Any
    ) -> FormResult:
        assert judge.graph == "float/decoder"
        return self._tried(kind, "encoder", run, limit)

    @staticmethod
    def _form(path: Path, label: str = "") -> str:
        return label or path.name

    @staticmethod
    def _tried(kind: str, part: str, run: Any, limit: Any) -> FormResult:
        return FormResult(kind, part, "passed", run.graph, limit=limit)


def _rungs(toy_model: Path, *, quantized: bool, checkpoint: object) -> FormChecks:
    spec = ModelSpec.load(toy_model)
    if quantized:
        spec = replace(spec, quantization="int4", encoder_quantization="int8")
    sources: Any = SimpleNamespace(
        directory=toy_model,
        spec=spec,
        checkpoint=checkpoint,
        float_encoder=Path("float"),
        float_decoder=Path("float"),
    )
    return FormChecks(sources, made_up_reference(best([0])))


def test_check_all_gives_each_form_graph_and_limit(
    toy_model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Climbed(monkeypatch)
    (tmp_path / "hailo").mkdir()
    for name in ("model.json", "hailo/encoder-2s.onnx", "hailo/decoder-2s-9.onnx"):
        shutil.copy(toy_model / name, tmp_path / name)
    (tmp_path / "hailo" / "encoder-2s-emulated.onnx").touch()
    form_result = list(
        _rungs(tmp_path, quantized=True, checkpoint=object()).check_all()
    )
    missing = (
        "no decoder-2s-9-emulated.onnx; whisper-hailo emulate --part decoder makes it"
    )
    chip = "no Hailo chip; validate on the device"
    assert [
        (form_check.kind, form_check.part, form_check.graph, form_check.limit)
        for form_check in form_result
    ] == [
        ("float32", "encoder", "float/encoder", limit_of("float32", "none")),
        ("quantised", "encoder", f"{tmp_path}/encoder", limit_of("quantised", "int8")),
        ("hailo-form", "encoder", "encoder-2s.onnx", limit_of("float32", "none")),
        (
            "emulated",
            "encoder",
            "encoder-2s-emulated.onnx (norms16)",
            limit_of("emulated", "int8"),
        ),
        ("hef", "encoder", chip, None),
        ("float32", "decoder", "float/decoder", limit_of("float32", "none")),
        ("quantised", "decoder", f"{tmp_path}/decoder", limit_of("quantised", "int4")),
        ("hailo-form", "decoder", "decoder-2s-9.onnx", limit_of("float32", "none")),
        ("emulated", "decoder", missing, None),
        ("hef", "decoder", chip, None),
    ]
    plain = _rungs(toy_model, quantized=False, checkpoint=None).check_all()
    status = {
        (form_check.kind, form_check.part): form_check.status for form_check in plain
    }
    assert status["float32", "encoder"] == status["quantised", "decoder"] == "not run"


def test_check_all_of_chip_needs_the_compared_sizes(
    toy_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three frames, three positions, five tokens; what does not fit is not run."""
    Climbed(monkeypatch)
    hefs: dict[str, Path | None] = {
        part: Path(f"{part}.hef") for part in ("encoder", "decoder")
    }
    monkeypatch.setattr(
        stage_checks, "find_npu", lambda: ("hailo8l", "hailo8l 0000:01:00.0")
    )
    monkeypatch.setattr(
        stage_checks, "matching_hef", lambda *arguments: hefs[arguments[3]]
    )
    monkeypatch.setattr(
        stage_checks, "hef_encoder", lambda path, _, frames: f"{path} {frames}"
    )
    monkeypatch.setattr(
        stage_checks, "hef_decoder", lambda path, _, __, sizes: f"{path} {sizes}"
    )
    checks = _rungs(toy_model, quantized=False, checkpoint=None)
    statuses = [
        (form_check.status, form_check.graph)
        for form_check in checks.check_all()
        if form_check.kind == "hef"
    ]
    assert statuses == [("not run", "encoder.hef 3"), ("not run", "decoder.hef (3, 5)")]
    hefs["encoder"] = None
    reason = next(
        form_check.graph
        for form_check in checks.check_all()
        if form_check.kind == "hef"
    )
    assert reason.startswith("no HEF of this model for hailo8l 0000:01:00.0; ")
