"""No rule fires on our own graphs, small and at true sizes; broken files are one line."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from tests.checkpoints import TOY, config_of, random_arrays, write_checkpoint
from tests.fakes.model_sizes import MODELS, Weightless, inferred
from tools.tests.unit.check.test_rules import only_finding, rules_of
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.graphs import onnx_graph
from whisper_hailo.convert.hailo_forms import (
    FixedSizes,
    decoder_form,
    encoder_form,
    hailo_decoder_graph,
    hailo_encoder_graph,
)
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.core.errors import ModelError, OptionError
from whisper_hailo.core.spec import SPEC_FILE
from whisper_hailo_tools.check import rules
from whisper_hailo_tools.check.report import check_file
from whisper_hailo_tools.check.rules import Severity

HAILO = ConvertOptions("none", hailo=HailoOptions(window_s=2, decoder_length=7))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("check")
    checkpoint = write_checkpoint(
        directory / "toy", random_arrays(TOY), config=config_of(TOY)
    )
    convert_checkpoint(checkpoint, directory / "model", HAILO)
    return directory / "model"


@pytest.mark.parametrize("arch", ["hailo8", "hailo8l", "hailo10h"])
@pytest.mark.parametrize("file", ["encoder-2s", "decoder-2s-7"])
def test_check_file_passes_our_own_forms(model: Path, file: str, arch: str) -> None:
    report = check_file(model / "hailo" / f"{file}.onnx", arch)
    notes = {"window", "host-positions"}  # the toy's width is nobody's
    assert {finding.rule for finding in report.findings} <= notes
    assert not report.blocked
    assert report.recorded


def test_check_file_of_decoder_skips_lookup_and_concat(model: Path) -> None:
    report = check_file(model / "hailo" / "decoder-2s-7.onnx", "hailo8l")
    assert not {"Gather", "Unsqueeze", "Concat"} & report.operators.keys()
    assert report.entries == {
        "encoder_hidden_states": "(1, 100, 64)",
        "embedded.nchw": "(1, 64, 7, 1)",
    }
    assert report.chip_inputs["embedded.nchw"] == "(1, 7, 1, 64)"
    assert report.chip_inputs["encoder_hidden_states"] == "(1, 1, 100, 64)"
    whole = check_file(
        model / "hailo" / "decoder-2s-7.onnx", "hailo8l", ends=["logits"]
    )
    assert {("blocks", "table-lookup"), ("blocks", "element-type")} <= rules_of(whole)


def test_check_file_blocks_our_dynamic_graphs(model: Path) -> None:
    encoder = rules_of(check_file(model / "encoder.onnx", "hailo8l"))
    rules = ("conv1d", "dynamic-shape", "dynamic-operator")
    assert {("blocks", rule) for rule in rules} <= encoder
    decoder = rules_of(check_file(model / "decoder.onnx", "hailo8l"))
    rules = ("table-lookup", "fused-attention")
    assert {("blocks", rule) for rule in rules} <= decoder


def test_check_file_finds_a_wrong_cut(model: Path) -> None:
    path = model / "hailo" / "decoder-2s-7.onnx"
    ends = ["/MatMul"]
    after = check_file(
        path, "hailo8", ["encoder_hidden_states", "embedded.turned"], ends
    )
    assert "(1, 64, 7)" in only_finding(after, "layout")
    missing = check_file(path, "hailo8", ["/Reshape"], ends)
    assert "encoder_hidden_states" in only_finding(missing, "cut")
    unused = check_file(path, "hailo8", ["encoder_hidden_states"], ["embedded"])
    assert {("blocks", "cut")} <= rules_of(unused)
    assert {finding.node for finding in unused.findings if finding.rule == "cut"} == {
        "decoder_input_ids",
        "encoder_hidden_states",
    }


def test_check_file_of_unknown_node_suggests_names(model: Path) -> None:
    path = model / "hailo" / "decoder-2s-7.onnx"
    with pytest.raises(OptionError, match=r"--end /MatMul_9: .*/MatMul"):
        check_file(path, "hailo8", ends=["/MatMul_9"])
    with pytest.raises(OptionError, match="--start nothing"):
        check_file(path, "hailo8", starts=["nothing"])
    with pytest.raises(OptionError, match="hailo9"):
        check_file(path, "hailo9")


@pytest.mark.parametrize(
    ("name", "window_s", "arch", "expected"),
    [
        ("tiny", 10, "hailo8l", None),
        ("tiny", 11, "hailo8l", Severity.UNKNOWN),
        ("base", 5, "hailo8", None),
        ("base", 10, "hailo8", Severity.BLOCKS),
        ("base", 10, "hailo10h", None),
        ("base", 15, "hailo10h", Severity.UNKNOWN),
        ("small", 5, "hailo8", Severity.UNKNOWN),
    ],
)
def test_check_form_of_windows_by_chip_and_width(
    name: str, window_s: int, arch: str, expected: Severity | None
) -> None:
    dims = MODELS[name]
    form = encoder_form(dims, FixedSizes(window_s, 32))
    findings = [finding.severity for finding in rules.check_form(form, dims, arch)]
    assert findings == ([] if expected is None else [expected])


def test_check_form_notes_host_positions_on_10h_once() -> None:
    dims = MODELS["tiny"]
    sizes = FixedSizes(10, 32)
    decoder = decoder_form(dims, sizes, "tiny")
    for arch, expected in (
        ("hailo10h", ["host-positions"]),
        ("hailo8", []),
        ("hailo8l", []),
    ):
        assert [
            finding.rule for finding in rules.check_form(decoder, dims, arch)
        ] == expected
    assert not list(rules.check_form(encoder_form(dims, sizes), dims, "hailo10h"))


def _saved_without_weights(model: onnx.ModelProto, path: Path) -> None:
    """The graph as a file whose large weights lie in a data file that holds none of them."""
    for item in model.graph.initializer:
        if item.data_location == TensorProto.EXTERNAL:
            del item.external_data[:]
            item.external_data.add(key="location", value="sparse.bin")
    onnx.save(model, path)
    (path.parent / "sparse.bin").touch()


@pytest.mark.parametrize(
    "name", ["tiny", "base", "small", pytest.param("turbo", marks=pytest.mark.slow)]
)
def test_check_file_at_true_sizes_blocks_nothing(name: str, tmp_path: Path) -> None:
    dims = MODELS[name]
    narrow = name == "tiny"
    sizes = FixedSizes(10, 32) if narrow else FixedSizes(5, 24)
    forms = encoder_form(dims, sizes), decoder_form(dims, sizes, name)
    graphs = hailo_encoder_graph, hailo_decoder_graph
    for form, graph in zip(forms, graphs, strict=True):
        path = tmp_path / f"{form.part}.onnx"
        _saved_without_weights(inferred(graph(Weightless(dims), sizes)), path)
        for arch in ("hailo8", "hailo10h"):
            report = check_file(path, arch, form.start_nodes, form.end_nodes)
            assert not report.blocked
            assert {finding.rule for finding in report.findings} <= {"wide-product"}
            findings = rules.check_form(form, dims, arch)
            assert not [finding for finding in findings if finding.severity == "blocks"]


def test_check_file_counts_weights_once(tmp_path: Path) -> None:
    dims = MODELS["tiny"]
    model = inferred(hailo_encoder_graph(Weightless(dims), FixedSizes(10, 32)))
    _saved_without_weights(model, tmp_path / "tiny.onnx")
    report = check_file(tmp_path / "tiny.onnx", "hailo8l")
    assert report.n_weights == 7_824_388
    assert not report.findings


def test_report_is_json(model: Path) -> None:
    raw = json.loads(
        json.dumps(check_file(model / "decoder.onnx", "hailo8l").to_dict())
    )
    assert raw["blocked"] is True
    assert {"rule", "severity", "node", "operator", "got", "mend", "source"} == set(
        raw["findings"][0]
    )


def test_check_file_of_older_model_json_warns(
    model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "hailo").mkdir()
    path = tmp_path / "hailo" / "encoder-2s.onnx"
    path.write_bytes((model / "hailo" / "encoder-2s.onnx").read_bytes())
    (tmp_path / SPEC_FILE).write_text('{"version": 1}')
    assert not check_file(path, "hailo8").recorded
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04 not a graph", b"\x00" * 100, b"{}"]
)
def test_check_file_of_other_files_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"x\.onnx"):
        check_file(path, "hailo8")
    with pytest.raises(ModelError, match="directory"):
        check_file(tmp_path, "hailo8")
    with pytest.raises(ModelError, match=r"absent\.onnx"):
        check_file(tmp_path / "absent.onnx", "hailo8")


def test_check_file_of_damaged_graphs_never_crashes(
    model: Path, tmp_path: Path
) -> None:
    whole = (model / "hailo" / "encoder-2s.onnx").read_bytes()
    path = tmp_path / "x.onnx"
    for length in np.linspace(1, len(whole) - 1, 25).astype(int):
        path.write_bytes(whole[:length])
        with pytest.raises(ModelError):
            check_file(path, "hailo8")
    rng = np.random.default_rng(0)
    for _ in range(40):
        damaged = bytearray(whole)
        for offset in rng.integers(0, 20_000, 3):  # the nodes come first
            damaged[offset] = rng.integers(256)
        path.write_bytes(damaged)
        with suppress(ModelError):
            assert check_file(path, "hailo8").to_dict()["nodes"]


def test_check_file_checks_data_files(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_graph, "PROTOBUF_LIMIT_BYTES", 1000)
    checkpoint = write_checkpoint(
        tmp_path / "toy", random_arrays(TOY), config=config_of(TOY)
    )
    convert_checkpoint(checkpoint, tmp_path / "model", HAILO)
    path = tmp_path / "model" / "hailo" / "encoder-2s.onnx"
    inline = check_file(model / "hailo" / "encoder-2s.onnx", "hailo8l")
    outside = check_file(path, "hailo8l")
    assert replace(outside, path=inline.path) == inline
    data = path.with_name(path.name + ".data")
    data.write_bytes(data.read_bytes()[:-1])
    with pytest.raises(ModelError, match=r"onnx\.data.* bytes"):
        check_file(path, "hailo8")
    data.unlink()
    with pytest.raises(ModelError, match=r"onnx\.data.*missing"):
        check_file(path, "hailo8")
