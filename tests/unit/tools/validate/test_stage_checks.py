"""What a kind is compared with, and what its verdict and its agreement count."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.unit.tools.validate.made_up import (
    FEATURES,
    OTHERS,
    SHOWN,
    WINDOWS,
    MadeUpRun,
    best,
    made_up_reference,
)
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo_tools.difference import difference
from whisper_hailo_tools.options import Limit, ValidateOptions, default_limit
from whisper_hailo_tools.validate import stage_checks
from whisper_hailo_tools.validate.stage_checks import (
    Agreement,
    FormChecks,
    FormResult,
    LayerResult,
    decoder_layers,
    encoder_layers,
    try_decoder,
    try_encoder,
)
from whisper_hailo_tools.validate.validate import ParityReport

TRUE = best([0, 1, 2, 3, 0], [1, 2, 0, 0, 0])
WITHIN = Limit("relative", 0.1)


def test_encoder_is_judged_by_a_decoders_tokens() -> None:
    spoiled = FEATURES.copy()
    spoiled[1] += 10  # of the largest value, 12

    def judged(features: Any) -> Any:
        logits = TRUE.copy()
        if features[1, 0, 0] != FEATURES[1, 0, 0]:
            logits[1] = best([3] * 5)[0]
        return logits

    judge: Any = MadeUpRun(says=judged)
    run: Any = MadeUpRun("spoiled", says=spoiled)
    found = try_encoder("float32", run, made_up_reference(TRUE), judge, WITHIN)
    assert (found.status, found.graph, found.reference) == ("failed", "spoiled", "made up")
    assert found.found is not None
    assert found.found.relative == pytest.approx(10 / 12)
    # Two tokens of the first row follow its prefix, the text and the end; one of the second.
    assert found.tokens == Agreement(2, 3)
    good: Any = MadeUpRun(says=FEATURES)
    assert try_encoder("float32", good, made_up_reference(TRUE), judge, WITHIN).status == "passed"


def test_decoder_is_judged_row_by_row_up_to_its_zeros() -> None:
    said = TRUE + np.float32(0.07)
    said[0, 4:], said[1, 3:] = 1e3, 1e3  # behind what is known
    run: Any = MadeUpRun(pad_to=7, says=said)
    reference = made_up_reference(TRUE)
    reference.logits(0)  # kept for other rungs
    found = try_decoder("float32", run, reference, WITHIN)
    assert found.found is not None
    assert found.found.max_abs == pytest.approx(0, abs=1e-6)
    assert (found.status, found.tokens) == ("passed", Agreement(3, 3))
    said[1, 1] = best([3] * 5)[0, 0] + np.float32(0.07)  # chooses the only word of the second row
    worse = try_decoder("float32", run, reference, WITHIN)
    assert (worse.status, worse.tokens) == ("failed", Agreement(2, 3))


def test_forced_tokens_and_what_follows_end_decide_nothing() -> None:
    assert list(SHOWN.deciding()) == [(0, 1), (0, 2), (1, 1)]


def test_layers_are_of_the_first_window_under_reference_names() -> None:
    mel = WINDOWS.mel[0]
    held = {"embedded": mel + 1, "525": mel * 2 + 1}
    run: Any = MadeUpRun(held=held, names={"features": "525"})
    reference = made_up_reference(TRUE)
    first, last = encoder_layers(run, reference)
    assert (first.name, first.snr_db) == ("embedded", math.inf)
    # Twice 0 to 5 against one too many each: 4 (0 + 1 + 4 + 9 + 16 + 25) over 6.
    assert (last.name, last.snr_db) == ("features", pytest.approx(10 * math.log10(220 / 6)))
    np.testing.assert_array_equal(run.fed[0][0], mel)
    tokens = SHOWN.tokens[0]
    decoder: Any = MadeUpRun(pad_to=7, held={"embedded": tokens + 7.0, "logits": FEATURES[0]})
    assert [layer.snr_db for layer in decoder_layers(decoder, reference)] == [math.inf, math.inf]
    for got, expected in zip(decoder.fed[0], (tokens, FEATURES[0]), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_limits_are_of_their_rung_part_and_measure() -> None:
    options = ValidateOptions(limits=("quantised-decoder=99", "emulated-encoder=12"))
    assert options.limit("quantised", "decoder", "int8") == Limit("snr_db", 99)
    assert options.limit("quantised", "encoder", "int8") == Limit("snr_db", 25)
    assert options.limit("emulated", "encoder") == Limit("snr_db", 12)
    assert options.limit("emulated", "decoder") == Limit("snr_db", 15)
    for kind in ("float32", "hailo-form"):
        assert default_limit(kind, "decoder", "int8") == Limit("relative", 1e-4)
    # Energy 1 and a hundredth of noise, 20 dB; of its peak, 2 values' worth, 3 dB more.
    found = difference(np.array([1.0, 0.1]), np.array([1.0, 0.0]))
    assert Limit("snr_db", 20).holds(found)
    assert not Limit("snr_db", 20.1).holds(found)


def test_a_report_passes_where_nothing_failed() -> None:
    def report(*statuses: str) -> ParityReport:
        results = tuple(FormResult("float32", "encoder", status, "") for status in statuses)
        return replace(empty, results=results)

    empty = ParityReport("m", Path(), "r", 2.0, (), (), {}, {}, ())
    assert report("passed", "not run").passed
    assert not report("passed", "failed").passed


def test_steepest_fall_is_between_two_stages() -> None:
    def fall(*ratios: float) -> tuple[str, str] | None:
        layers = tuple(LayerResult(str(n), ratio) for n, ratio in enumerate(ratios))
        found = FormResult("float32", "encoder", "failed", "", layers=layers).steepest_fall
        return None if found is None else (found[0].name, found[1].name)

    assert fall(120.0, 118.0, 40.0, 30.0) == ("1", "2")
    assert fall(math.inf, 100.0, 40.0) == ("0", "1")
    assert fall(20.0, 30.0) is None
    assert fall() is None


@dataclass
class Run:
    """A run that is its own label."""

    graph: str
    pad_to: int = 0

    def feeds(self, *fed: Any) -> Any:
        return fed

    def encode(self, mel: Any) -> Any:
        return FEATURES[: len(mel)] + 50

    def inner(self, *fed: Any) -> str:
        first = (WINDOWS.mel[0],), (made_up_reference(best([0])).shown.tokens[0], FEATURES[0])
        same = [len(fed) == len(one) and all(map(np.array_equal, fed, one)) for one in first]
        assert any(same)
        return f"inside {self.graph}"


class EncoderRun(Run):
    pass


class Climbed:
    """What was tried and compared while a ladder was climbed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.emulated_by: list[Any] = []
        put = monkeypatch.setattr
        put(stage_checks, "EncoderRun", EncoderRun)
        put(stage_checks, "cached_encoder", lambda folder: EncoderRun(f"{folder}/encoder"))
        put(stage_checks, "cached_decoder", self._decoder)
        put(
            stage_checks,
            "hailo_encoder_run",
            lambda path, *more: EncoderRun(self._form(path, *more)),
        )
        put(stage_checks, "hailo_decoder_run", lambda path, *more: Run(self._form(path, *more)))
        put(stage_checks, "emulated_graph", self._emulated)
        put(stage_checks, "find_hef", lambda _, __, part: f"no chip for the {part}")
        put(stage_checks, "encoder_layers", lambda *_: ())
        put(stage_checks, "decoder_layers", lambda *_: ())
        put(stage_checks, "try_encoder", self._tried_encoder)
        put(
            stage_checks,
            "try_decoder",
            lambda kind, run, reference, limit: self._tried(kind, "decoder", run, limit),
        )

    def _tried_encoder(
        self, kind: str, run: Run, reference: object, judge: Any, limit: Any
    ) -> FormResult:
        return self._tried(kind, "encoder", run, limit, judge)

    def _decoder(self, folder: Path, pad_to: int | None = None) -> Run:
        return Run(f"{folder}/decoder" + ("" if pad_to is None else f" padded to {pad_to}"))

    def _form(self, path: Path, encoded: bytes | None = None, name: str = "") -> str:
        return str(path) if encoded is None else f"{name} of {encoded!r}"

    def _emulated(self, _: object, __: object, form: Any, graph: str, feeds: Any) -> Any:
        self.emulated_by.append(feeds)
        return SimpleNamespace(label=f"emulated {form.part}", encoded=b"8 bits")

    def _tried(self, kind: str, part: str, run: Run, limit: Any, judge: Any = None) -> FormResult:
        assert part == "decoder" or judge.graph == "float/decoder"
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
    return FormChecks(sources, made_up_reference(best([0])), ValidateOptions().limit)


def test_each_rung_has_its_graph_and_its_limit(
    toy_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Climbed(monkeypatch)
    found = list(_rungs(toy_model, quantized=True, checkpoint=object()).check_all())
    encoder, decoder = (toy_model / "hailo" / f"{n}.onnx" for n in ("encoder-2s", "decoder-2s-9"))
    assert [
        (one.kind, one.part, one.graph, one.limit.text if one.limit else "") for one in found
    ] == [
        ("float32", "encoder", "float/encoder", "relative <= 0.0001"),
        ("quantised", "encoder", f"{toy_model}/encoder", "SNR >= 25 dB"),
        ("hailo-form", "encoder", str(encoder), "relative <= 0.0001"),
        ("emulated", "encoder", "emulated encoder of b'8 bits'", "SNR >= 15 dB"),
        ("hef", "encoder", "no chip for the encoder", ""),
        ("float32", "decoder", "float/decoder", "relative <= 0.0001"),
        ("quantised", "decoder", f"{toy_model}/decoder", "SNR >= 10 dB"),
        ("hailo-form", "decoder", str(decoder), "relative <= 0.0001"),
        ("emulated", "decoder", "emulated decoder of b'8 bits'", "SNR >= 15 dB"),
        ("hef", "decoder", "no chip for the decoder", ""),
    ]


def test_scales_of_an_emulation_use_windows_not_compared(
    toy_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    climbed = Climbed(monkeypatch)
    ladder = _rungs(toy_model, quantized=False, checkpoint=None)
    found = {(one.kind, one.part): one for one in ladder.check_all()}
    ((mel,),), ((tokens, features),) = climbed.emulated_by
    np.testing.assert_array_equal(mel, OTHERS.mel[0])
    np.testing.assert_array_equal(features, FEATURES[0] + 50)
    np.testing.assert_array_equal(tokens, SHOWN.tokens[0] + 100)
    assert found["float32", "encoder"].status == found["quantised", "decoder"].status == "not run"


def test_a_chip_is_asked_for_the_sizes_that_are_compared(
    toy_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three frames, three positions, five tokens; what does not fit is not run."""
    Climbed(monkeypatch)
    monkeypatch.setattr(stage_checks, "find_hef", lambda _, __, part: Path(f"{part}.hef"))
    monkeypatch.setattr(stage_checks, "hef_encoder", lambda path, _, frames: f"{path} {frames}")
    monkeypatch.setattr(stage_checks, "hef_decoder", lambda path, _, __, sizes: f"{path} {sizes}")
    found = list(_rungs(toy_model, quantized=False, checkpoint=None).check_all())
    asked = [(one.status, one.graph) for one in found if one.kind == "hef"]
    assert asked == [("not run", "encoder.hef 3"), ("not run", "decoder.hef (3, 5)")]
