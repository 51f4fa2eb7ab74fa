"""Which graph stands on which kind."""

from __future__ import annotations

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
    best,
    made_up_reference,
)
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo_tools.options import ValidateOptions
from whisper_hailo_tools.validate import stage_checks
from whisper_hailo_tools.validate.stage_checks import FormChecks, FormResult


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


def test_an_emulation_s_scales_are_chosen_by_windows_that_are_not_compared(
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
