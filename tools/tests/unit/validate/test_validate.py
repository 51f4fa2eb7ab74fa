"""The whole ladder on a toy model: what passes, what fails, what is not run and why."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
import onnx
import pytest
import soundfile
from onnx import numpy_helper

from tests.checkpoints import TOY, random_arrays, write_checkpoint
from tests.standin import chip_here
from tests.standin.make_hef import write_hefs
from whisper_hailo.audio.windows import WindowPlan
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.core.errors import AudioError, ModelError, OptionError
from whisper_hailo.core.protocols import SilenceKeys
from whisper_hailo.core.spec import SPEC_FILE, HefRecord, ModelSpec
from whisper_hailo.core.types import FloatArray
from whisper_hailo_tools.calibrate import windows
from whisper_hailo_tools.emulate.make import emulate_part
from whisper_hailo_tools.options import EmulateOptions, ValidateOptions
from whisper_hailo_tools.validate import reference
from whisper_hailo_tools.validate.reference import GraphSources, stage_names
from whisper_hailo_tools.validate.stage_checks import BLOCKS, FormResult, Limit
from whisper_hailo_tools.validate.validate import (
    ParityReport,
    decode_greedily,
    draw_windows,
    validate,
)

Results = dict[tuple[str, str], FormResult]


def _by_rung(report: ParityReport) -> Results:
    return {(result.kind, result.part): result for result in report.results}


@pytest.fixture(scope="module")
def report(int8_model: Path, toy_checkpoint: Path, speech: Path) -> ParityReport:
    options = ValidateOptions(audio=speech, checkpoint=str(toy_checkpoint), windows=2)
    return validate(int8_model, options)


@pytest.mark.slow
@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_validate_passes_every_form(
    report: ParityReport, int8_model: Path, part: str
) -> None:
    results_by_rung = _by_rung(report)
    dims = ModelSpec.load(int8_model).dims
    layers = {"encoder": dims.n_encoder_layers, "decoder": dims.n_decoder_layers}
    stages = stage_names(part, layers[part])
    assert report.passed
    for kind in ("float32", "quantised", "hailo-form"):
        result = results_by_rung[kind, part]
        assert result.status == "passed"
        assert result.difference is not None
        assert result.tokens is not None
        assert 0 < result.tokens.same <= result.tokens.of
        assert [layer.name for layer in result.layers] == stages
        assert min(layer.snr_db for layer in result.layers) > 15, (
            "in whichever order of axes"
        )
    exact = results_by_rung["hailo-form", part].difference
    blocks = results_by_rung["quantised", part].difference
    assert exact is not None
    assert blocks is not None
    assert exact.relative < 1e-5 < blocks.relative
    hef = results_by_rung["hef", part]
    assert hef.status == "not run"
    assert "no Hailo binding" in hef.graph or "no HEF" in hef.graph


@pytest.mark.slow
def test_report_is_json(report: ParityReport) -> None:
    facts = json.loads(report.to_json())
    assert facts["passed"] is True
    assert len(facts["rungs"]) == 11
    assert len(facts["windows"]) == 2
    assert set(facts["audio_sha256"]) == {"0.wav", "1.wav"}


@pytest.mark.slow
def test_validate_without_checkpoint_uses_float_graphs(
    toy_model: Path, speech: Path
) -> None:
    report = validate(toy_model, ValidateOptions(audio=speech, windows=1))
    n_layers = ModelSpec.load(toy_model).dims.n_decoder_layers
    results_by_rung = _by_rung(report)
    assert report.reference == "float32 graphs of the model directory"
    assert "--checkpoint" in results_by_rung["float32", "encoder"].graph
    decoder = results_by_rung["hailo-form", "decoder"]
    assert decoder.status == "passed"
    assert [layer.name for layer in decoder.layers] == stage_names("decoder", n_layers)


@pytest.mark.slow
def test_validate_judges_an_emulated_graph(
    toy_model: Path, speech: Path, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    shutil.copytree(toy_model, model)
    emulate_part(model, EmulateOptions(plan="adds16", audio=speech, count=2))
    results_by_rung = _by_rung(
        validate(model, ValidateOptions(audio=speech, windows=1))
    )
    result = results_by_rung["emulated", "encoder"]
    assert result.graph == "encoder-2s-emulated.onnx (adds16)"
    assert result.difference is not None
    assert result.difference.snr_db > 3
    assert len(result.layers) > 3
    assert (
        "whisper-hailo emulate --part decoder"
        in results_by_rung["emulated", "decoder"].graph
    )


@pytest.mark.slow
def test_validate_judges_present_forms_only(
    toy_model: Path, toy_checkpoint: Path, speech: Path
) -> None:
    options = ValidateOptions(audio=speech, checkpoint=str(toy_checkpoint), windows=1)
    results_by_rung = _by_rung(validate(toy_model, options))
    for part, option in (("encoder", "--encoder-quantize"), ("decoder", "--quantize")):
        assert results_by_rung["float32", part].status == "passed"
        assert results_by_rung["quantised", part].status == "not run"
        assert f"convert with {option} " in results_by_rung["quantised", part].graph


@pytest.mark.slow
def test_validate_of_quantized_directory_has_limits(
    toy_checkpoint: Path, speech: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "int4"
    convert_checkpoint(toy_checkpoint, out, ConvertOptions(quantize="int4"))
    with pytest.raises(ModelError, match="--checkpoint"):
        validate(out, ValidateOptions(audio=speech))
    options = ValidateOptions(audio=speech, checkpoint=str(toy_checkpoint), windows=1)
    results_by_rung = _by_rung(validate(out, options))
    assert results_by_rung["quantised", "decoder"].graph == "decoder.onnx int4"
    assert results_by_rung["float32", "decoder"].status == "passed"
    assert "--hailo" in results_by_rung["hailo-form", "decoder"].graph
    monkeypatch.setitem(BLOCKS, "int4", Limit(99))
    assert not validate(out, options).passed


@pytest.mark.slow
def test_validate_of_changed_graph_fails(
    toy_model: Path, toy_checkpoint: Path, speech: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(toy_model, broken)
    path = broken / "hailo" / "encoder-2s.onnx"
    model = onnx.load(path)
    item = next(
        i for i in model.graph.initializer if i.name == "encoder.layers.0.fc2.bias"
    )
    array = numpy_helper.to_array(item).copy()
    array[3] += 0.5
    item.CopyFrom(numpy_helper.from_array(array, item.name))
    onnx.save(model, path)
    options = ValidateOptions(audio=speech, checkpoint=str(toy_checkpoint), windows=1)
    report = validate(broken, options)
    result = _by_rung(report)["hailo-form", "encoder"]
    assert not report.passed
    assert result.status == "failed"
    assert result.steepest_fall is not None
    assert result.steepest_fall[1].name == "encoder.layers.0.out"
    sound = [layer.snr_db > 80 for layer in result.layers]
    assert sound[:4] == [True] * 4
    assert not sound[-1]


def test_validate_refuses_another_checkpoint(
    toy_model: Path, speech: Path, tmp_path: Path
) -> None:
    other = write_checkpoint(tmp_path / "other", random_arrays(TOY, seed=1))
    with pytest.raises(ModelError, match=r"model\.safetensors"):
        validate(toy_model, ValidateOptions(audio=speech, checkpoint=str(other)))


def test_validate_without_audio_is_refused(toy_model: Path, tmp_path: Path) -> None:
    options = ValidateOptions(audio=tmp_path)
    with pytest.raises(AudioError) as without_files:
        validate(toy_model, options)
    soundfile.write(tmp_path / "silent.wav", np.zeros(32_000), 16_000)
    with pytest.raises(AudioError, match="speech") as without_speech:
        validate(toy_model, options)
    assert str(without_files.value) != str(without_speech.value)


def test_validate_options_need_a_window() -> None:
    with pytest.raises(OptionError, match="--windows is 0"):
        ValidateOptions(windows=0)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The stand-in's machine with a chip of its own kind; no rule of the binding is broken."""
    with chip_here(monkeypatch) as results_by_rung:
        yield results_by_rung


def _compiled(model: Path, out: Path) -> Path:
    """The model directory with HEFs, as `compile` leaves it."""
    shutil.copytree(model, out)
    spec = ModelSpec.load(out)
    paths = write_hefs(out, out / "hailo" / "hailo8l")
    records = tuple(
        HefRecord(
            part=part,
            arch="hailo8l",
            file=path.relative_to(out).as_posix(),
            bytes=path.stat().st_size,
            sha256="0" * 64,
            graph_sha256="0" * 64,
            script_sha256="0" * 64,
            calibration_sha256="0" * 64,
            compiler_version="3.33.1",
        )
        for part, path in zip(("encoder", "decoder"), paths, strict=True)
    )
    (out / SPEC_FILE).write_text(replace(spec, hefs=records).to_json())
    return out


@pytest.mark.slow
def test_validate_runs_hefs_on_a_chip(
    machine: Any, toy_model: Path, toy_checkpoint: Path, speech: Path, tmp_path: Path
) -> None:
    model = _compiled(toy_model, tmp_path / "model")
    options = ValidateOptions(audio=speech, checkpoint=str(toy_checkpoint), windows=1)
    results_by_rung = {(r.kind, r.part): r for r in validate(model, options).results}
    for part in ("encoder", "decoder"):
        result = results_by_rung["hef", part]
        assert result.status == "passed"
        assert result.graph == f"{part}_hailo8l.hef"
        assert result.difference is not None
        assert result.difference.relative < 1e-4  # the stand-in computes in float32
        assert result.tokens is not None
        assert result.tokens.same == result.tokens.of


@pytest.mark.slow
def test_validate_on_chip_without_hefs_says_so(
    machine: Any, toy_model: Path, speech: Path
) -> None:
    results_by_rung = validate(
        toy_model, ValidateOptions(audio=speech, windows=1)
    ).results
    reasons = [result.graph for result in results_by_rung if result.kind == "hef"]
    assert len(reasons) == 2
    assert all("no HEF of this model for hailo8l" in reason for reason in reasons)


@pytest.mark.slow
def test_validate_skips_hefs_of_another_window(
    machine: Any, toy_model: Path, toy_checkpoint: Path, speech: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    sizes = HailoOptions(window_s=1, decoder_length=5)
    convert_checkpoint(toy_checkpoint, other, ConvertOptions("none", hailo=sizes))
    hefs = _compiled(other, tmp_path / "hefs")
    model = _compiled(toy_model, tmp_path / "model")
    for name in ("encoder", "decoder"):
        file = f"hailo/hailo8l/{name}_hailo8l.hef"
        shutil.copy(hefs / file, model / file)
    results_by_rung = validate(model, ValidateOptions(audio=speech, windows=1)).results
    reasons = {
        result.part: result.graph for result in results_by_rung if result.kind == "hef"
    }
    assert re.search(r"encoder_hailo8l\.hef .*100 .*200", reasons["encoder"])
    assert re.search(r"50 .*5 ", reasons["decoder"])


def test_draw_windows_takes_turns_through_the_files(
    toy_model: Path, speech: Path
) -> None:
    """Two files of 2.5 s: the content of a window of 2 s is one, so each has three."""
    plan = WindowPlan.make(ModelSpec.load(toy_model).dims, 2.0)
    drawn_inputs = draw_windows(speech, plan, 128, 4)
    assert drawn_inputs.mel.shape == (4, 128, 200)
    assert len(set(drawn_inputs.used)) == 4
    names = [name for name, _ in drawn_inputs.used]
    assert set(names[:2]) == set(names[2:]) == {"0.wav", "1.wav"}
    assert len({mel.tobytes() for mel in drawn_inputs.mel}) == 4


def test_decode_greedily_gives_forced_text_end_and_zeros(
    toy_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forced ones, what was heard, the end, zeros; cut to the length of a row."""
    spec = ModelSpec.load(toy_model)
    texts_by_start = {0.0: (21, 22), 1.0: (31, 32, 33, 34, 35), 2.0: ()}

    class Engine:
        silence_keys = SilenceKeys(np.ones((1, 64), np.float32), np.ones(1, np.float32))

        def __init__(self, *_: object) -> None: ...

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None: ...

        silence_keys = None

        def encode(self, mel: FloatArray) -> FloatArray:
            return mel

        def start(self, features: FloatArray, paddings: Any) -> float:
            assert paddings[0].pad_to == spec.dims.n_audio_ctx
            assert paddings[0].silence is self.silence_keys
            return float(features.flat[0])

    class Loop:
        def __init__(self, *_: object) -> None: ...

        def run(self, state: float, tasks: Any) -> Any:
            assert tasks[0].prompt == (spec.tokens.sot,)
            return [SimpleNamespace(tokens=texts_by_start[state])]

    monkeypatch.setattr(windows, "OnnxEncoder", Engine)
    monkeypatch.setattr(windows, "CachedDecoder", Engine)
    monkeypatch.setattr(windows, "DecodingLoop", Loop)
    mel = np.arange(3, dtype=np.float32)[:, None, None] * np.ones(
        (1, 80, 4), np.float32
    )
    drawn_inputs = decode_greedily(toy_model, spec, mel, 6, "en")
    sot = spec.tokens.sot
    eot = spec.tokens.eot
    expected = [
        [sot, 21, 22, eot, 0, 0],
        [sot, 31, 32, 33, 34, 35],
        [sot, eot, 0, 0, 0, 0],
    ]
    assert drawn_inputs.tokens.tolist() == expected
    assert drawn_inputs.n_prefix == 1
    assert drawn_inputs.lengths == (4, 6, 2)


def test_graph_sources_convert_the_checkpoint_to_float(
    toy_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = ModelSpec.load(toy_model)
    ours = Path("ours")
    model_path = Path("model_path")
    monkeypatch.setattr(reference, "convert_checkpoint", lambda *_, **__: None)
    for decoder, encoder in (("none", "int8"), ("int8", "none"), ("none", "none")):
        kinds = replace(spec, quantization=decoder, encoder_quantization=encoder)
        checkpoint: Any = SimpleNamespace(directory=Path("checkpoint"))
        sources = GraphSources(ours, kinds, checkpoint, model_path)
        assert sources.float_encoder == (
            ours if encoder == "none" else model_path / "float32"
        )
        assert sources.float_decoder == (
            ours if decoder == "none" else model_path / "float32"
        )
