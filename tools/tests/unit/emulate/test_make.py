"""Emulations of the bundled model, from its directory and real speech, and their noise."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from tools.tests.unit.emulate import graphs
from tools.tests.unit.emulate.conftest import SPEECH
from whisper_hailo.core.errors import AudioError, ModelError, OptionError, OutputError
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo_tools.emulate import make
from whisper_hailo_tools.emulate.make import (
    WindowFile,
    emulate_part,
    measure_noise,
    split,
)
from whisper_hailo_tools.emulate.network import read_network
from whisper_hailo_tools.emulate.rewrite import PrecisionPlan, emulated
from whisper_hailo_tools.emulate.statistics import collect, scale_of
from whisper_hailo_tools.options import CompileOptions, EmulateOptions

RNG = np.random.default_rng(5)
WINDOWS = [{"x": RNG.standard_normal((1, 2, 2)).astype(np.float32)} for _ in range(40)]


def snr_db(micro: Path, sets: dict[str, Path], part: str, plan: str) -> float:
    options = EmulateOptions(part=part, plan=plan, calibration=sets[part])
    outputs = emulate_part(micro, options).noise.outputs
    return sum(entry.snr_db for entry in outputs) / len(outputs)


@pytest.mark.slow
def test_emulate_with_wider_layers_loses_less(
    micro: Path, sets: dict[str, Path]
) -> None:
    nodes = [
        snr_db(micro, sets, "encoder", plan) for plan in ("all8", "adds16", "norms16")
    ]
    assert nodes[0] < nodes[1]
    assert nodes[1] < nodes[2] + 0.5
    assert nodes[0] > 5


@pytest.mark.slow
def test_emulate_in_16_bits_loses_next_to_nothing(
    micro: Path, sets: dict[str, Path], tmp_path: Path
) -> None:
    script = tmp_path / "all16.alls"
    script.write_text("quantization_param({*}, precision_mode=a16_w16)\n")
    options = EmulateOptions(script=script, calibration=sets["encoder"])
    result = emulate_part(micro, options)
    assert result.plan.name == "all16"
    # A dozen short windows do not span all values that others have: what is cut off is left.
    assert result.noise.outputs[0].snr_db > 30
    assert result.noise.outputs[0].snr_db > snr_db(micro, sets, "encoder", "all8") + 8
    assert min(entry.snr_db for entry in result.noise.layers) > 20


@pytest.mark.slow
@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_emulated_graph_is_a_valid_form(
    micro: Path, sets: dict[str, Path], part: str
) -> None:
    result = emulate_part(micro, EmulateOptions(part=part, calibration=sets[part]))
    form = next(form for form in ModelSpec.load(micro).hailo if form.part == part)
    exact = onnx.load(micro / form.file)
    rounded = onnx.load(result.path)
    onnx.checker.check_model(rounded, full_check=True)
    assert list(rounded.graph.input) == list(exact.graph.input)
    assert list(rounded.graph.output) == list(exact.graph.output)
    assert list(rounded.opset_import) == list(exact.opset_import)
    exact_tensors = {name for node in exact.graph.node for name in node.output}
    network = read_network(exact, form.start_nodes, form.end_nodes)
    rounded_tensors = {name for node in rounded.graph.node for name in node.output}
    assert set(network.tensors) & exact_tensors <= rounded_tensors
    record = json.loads(result.record.read_text())
    assert record["plan"] == "script"
    assert record["precisions"] == {
        k: str(v) for k, v in result.plan.precisions.items()
    }
    assert [entry["snr_db"] for entry in record["outputs"]] == [
        entry.snr_db for entry in result.noise.outputs
    ]
    assert "quantization_param({ew_add*}, precision_mode=a16_w16)" in record["script"]
    assert record["held_out"] is True
    assert record["calibration_windows"] == 10
    assert record["noise_windows"] == 2


@pytest.mark.slow
def test_emulated_graph_survives_the_runtimes_optimizer(
    micro: Path, sets: dict[str, Path]
) -> None:
    """Reordered sums may move a value to the next step, and no further."""
    result = emulate_part(
        micro, EmulateOptions(plan="all8", calibration=sets["encoder"])
    )
    window = np.load(sets["encoder"])[:1].transpose(0, 3, 1, 2)
    nodes = []
    levels = onnxruntime.GraphOptimizationLevel
    for level in (levels.ORT_DISABLE_ALL, levels.ORT_ENABLE_ALL):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = level
        session = onnxruntime.InferenceSession(
            result.path, options, providers=["CPUExecutionProvider"]
        )
        nodes.append(session.run(None, {"x.1": np.ascontiguousarray(window)})[0])
    plain, optimised = nodes
    error = np.sum(np.square(plain - optimised))
    noise = error / np.sum(np.square(plain))
    noise_db = 10 * math.log10(max(noise, 1e-30))
    assert noise_db < -result.noise.outputs[0].snr_db - 3
    assert len(np.unique(optimised)) <= 256


@pytest.mark.slow
def test_emulate_takes_recordings_for_a_set(micro: Path) -> None:
    result = emulate_part(micro, EmulateOptions(plan="adds16", audio=SPEECH, count=4))
    assert result.n_windows == 4
    assert result.noise.n_windows == 16
    assert result.held_out
    before = result.path.read_bytes()
    again = emulate_part(micro, EmulateOptions(plan="adds16", audio=SPEECH, count=4))
    assert again.path.read_bytes() == before


@pytest.mark.parametrize(
    ("n_windows", "count", "expected"),
    [
        (80, 64, (64, 64)),
        (70, 64, (56, 56)),
        (10, 64, (8, 8)),
        (2, 64, (1, 1)),
        (1, 64, (1, 0)),
    ],
)
def test_split_keeps_windows_for_the_noise(
    n_windows: int, count: int, expected: tuple[int, int]
) -> None:
    assert split(n_windows, count) == expected


@pytest.mark.slow
def test_window_file_reads_the_sets_windows(micro: Path, sets: dict[str, Path]) -> None:
    for form in ModelSpec.load(micro).hailo:
        entries = read_network(
            onnx.load(micro / form.file), form.start_nodes, form.end_nodes
        ).entries
        windows = WindowFile(sets[form.part], ModelSpec.load(micro), form, entries)
        assert windows.n_windows == 12
        windows_read = list(windows.read(3, 5))
        loaded = np.load(sets[form.part])
        if form.part == "encoder":
            np.testing.assert_array_equal(
                windows_read[0]["x.1"], loaded[3:4].transpose(0, 3, 1, 2)
            )
        else:
            features, embeddings = loaded.values()
            np.testing.assert_array_equal(
                windows_read[1]["encoder_hidden_states"], features[4]
            )
            expected = embeddings[4:5].transpose(0, 3, 1, 2)
            np.testing.assert_array_equal(windows_read[1]["embedded.nchw"], expected)
        assert len(windows_read) == 2


@pytest.mark.slow
def test_emulate_with_unfit_calibration_is_refused(
    micro: Path, sets: dict[str, Path], tmp_path: Path
) -> None:
    good = np.load(sets["encoder"])
    bad = {
        "shape.npy": good[:, :, :100],
        "type.npy": good.astype(np.float64),
        "empty.npy": good[:0],
    }
    for name, array in bad.items():
        np.save(tmp_path / name, array)
    (tmp_path / "text.npy").write_text("no array")
    (tmp_path / "cut.npy").write_bytes(sets["encoder"].read_bytes()[:-100])
    for name in [*bad, "text.npy", "cut.npy", "missing.npy"]:
        with pytest.raises(ModelError, match="calibrate"):
            emulate_part(micro, EmulateOptions(calibration=tmp_path / name))
    options = EmulateOptions(part="decoder", calibration=sets["encoder"])
    with pytest.raises(ModelError, match="array"):
        emulate_part(micro, options)
    assert not list((micro / "hailo").glob("*emulated*"))


def test_emulate_of_impossible_graphs_is_refused(micro: Path, tmp_path: Path) -> None:
    with pytest.raises(AudioError, match="nothing"):
        emulate_part(micro, EmulateOptions(audio=tmp_path / "nothing"))
    options = EmulateOptions(audio=SPEECH, script=tmp_path / "no.alls")
    with pytest.raises(ModelError, match=r"no\.alls"):
        emulate_part(micro, options)
    graph = micro / "hailo" / "encoder-2s.onnx"
    data = graph.read_bytes()
    graph.unlink()
    graph.write_bytes(data[:-10])
    with pytest.raises(ModelError, match=r"encoder-2s\.onnx .*\d+ bytes"):
        emulate_part(micro, EmulateOptions(audio=SPEECH))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"part": "middle"}, "--part is 'middle'"),
        ({"plan": "all4"}, "--plan is 'all4'"),
        ({"arch": "hailo15"}, "--arch is 'hailo15'"),
        ({"count": 0}, "--count is 0"),
        ({"plan": "all8", "script": Path("s.alls")}, "--plan .*--script"),
        ({"audio": None}, "--audio .*--calibration"),
        ({"calibration": Path("c.npy")}, "--audio .*--calibration"),
    ],
)
def test_emulate_options_that_conflict_are_refused(
    options: dict[str, object], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        EmulateOptions(**({"audio": SPEECH} | options))  # type: ignore[arg-type]


def test_emulate_refuses_graphs_over_2_gib_unread(
    micro: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(make, "PROTOBUF_LIMIT_BYTES", 1000)
    with pytest.raises(ModelError, match="GiB"):
        emulate_part(micro, EmulateOptions(audio=SPEECH))


def test_emulate_to_unwritable_place_fails_first(
    micro: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(OutputError, match="hailo"):
        emulate_part(micro, EmulateOptions(calibration=micro / "no such set"))
    assert not list((micro / "hailo").glob("writing-*"))


@pytest.mark.slow
def test_read_network_of_decoder_needs_start_nodes(micro: Path) -> None:
    model = onnx.load(micro / "hailo" / "decoder-2s-16.onnx")
    with pytest.raises(ModelError, match="decoder_input_ids"):
        read_network(model, (), ())
    encoder = onnx.load(micro / "hailo" / "encoder-2s.onnx")
    windows = [{"x.1": np.zeros((1, 80, 1, 200), np.float32)}]
    network = read_network(encoder, (), ())
    result = emulated(
        encoder, network, PrecisionPlan("all8"), collect(encoder, network, windows)
    )
    assert result.graph.output[0].name == "525"


def _compile_options(sets: dict[str, Path], part: str) -> CompileOptions:
    return CompileOptions(arch="hailo8l", part=part, calibration=sets[part])


@pytest.mark.slow
def test_require_words_of_noisy_encoder_is_refused(
    micro: Path, sets: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(path.name for path in (micro / "hailo").iterdir())
    make.require_words(micro, _compile_options(sets, "encoder"))
    monkeypatch.setattr(make, "MIN_CHIP_SNR_DB", 99.0)
    with pytest.raises(ModelError, match="--force"):
        make.require_words(micro, _compile_options(sets, "encoder"))
    make.require_words(micro, _compile_options(sets, "decoder"))
    after = sorted(path.name for path in (micro / "hailo").iterdir())
    assert after == before, "a prediction leaves nothing behind"


def test_collect_gives_statistics_of_the_tensors() -> None:
    model = graphs.residual()
    network = read_network(model, (), ())
    statistics = collect(model, network, WINDOWS)
    x = np.stack([window["x"] for window in WINDOWS])
    linear = x @ graphs.WEIGHT + graphs.BIAS
    assert set(statistics) == {"x", "linear", "y"}
    for name, values in {"x": x, "linear": linear, "y": x + linear}.items():
        histogram = statistics[name]
        assert histogram.n_values == values.size
        assert histogram.low == pytest.approx(values.min(), rel=1e-5)
        assert histogram.high == pytest.approx(values.max(), rel=1e-5)


def test_measure_noise_is_that_of_the_rounding() -> None:
    model = graphs.positions()
    network = read_network(model, (), ())
    statistics = graphs.statistics(x=(-4, 4), y=(-6, 6))
    rounded = emulated(model, network, PrecisionPlan("all8"), statistics)
    noise = measure_noise(model, rounded, network, WINDOWS)
    assert [entry.layer for entry in noise.layers] == ["input_layer1", "ew_add1"]
    assert [entry.layer for entry in noise.outputs] == ["output_layer1"]
    assert noise.n_windows == 40
    x = np.stack([window["x"] for window in WINDOWS])
    read = scale_of(-4, 4, 8).rounded(x)
    y = scale_of(-6, 6, 8).rounded(read + scale_of(-1, 2, 8).rounded(graphs.POSITIONS))
    for entry, true, emulated_values in zip(
        noise.layers, (x, x + graphs.POSITIONS), (read, y), strict=True
    ):
        snr_db = 10 * math.log10(
            np.sum(np.square(true)) / np.sum(np.square(true - emulated_values))
        )
        assert entry.snr_db == pytest.approx(snr_db, abs=0.01)
    assert noise.outputs[0].snr_db == noise.layers[1].snr_db
    assert noise.layers[0].snr_db > noise.layers[1].snr_db


def test_measure_noise_without_windows_is_refused() -> None:
    model = graphs.residual()
    network = read_network(model, (), ())
    with pytest.raises(ModelError):
        collect(model, network, [])
    rounded = emulated(
        model, network, PrecisionPlan("all8"), collect(model, network, WINDOWS)
    )
    with pytest.raises(ModelError, match="windows"):
        measure_noise(model, rounded, network, [])


def test_collect_of_another_networks_windows_is_refused() -> None:
    model = graphs.residual()
    network = read_network(model, (), ())
    with pytest.raises(ModelError, match="mel"):
        collect(model, network, [{"mel": np.zeros((1, 2, 2), np.float32)}])
    with pytest.raises(ModelError, match="failed"):
        collect(model, network, [{"x": np.zeros((1, 5, 2), np.float32)}])


def test_measure_noise_compares_the_given_tensors_only() -> None:
    model = graphs.residual()
    network = read_network(model, (), ())
    plan = PrecisionPlan("all8")
    rounded = emulated(model, network, plan, collect(model, network, WINDOWS))
    whole = measure_noise(model, rounded, network, WINDOWS)
    some = measure_noise(model, rounded, network, WINDOWS, tensors=("linear",))
    assert [entry.tensor for entry in some.layers] == ["linear"]
    assert some.layers == tuple(
        entry for entry in whole.layers if entry.tensor == "linear"
    )
    assert some.outputs == ()
