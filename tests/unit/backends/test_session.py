"""Sessions of ONNX Runtime: options, refused graphs, failed runs."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from whisper_hailo.backends.session import (
    OLDEST_RUNTIME,
    open_graph,
    open_session,
    running,
)
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.spec import CROSS_KV_FILE, ModelSpec

_ROOT = Path(__file__).parents[3]


def _graph(kind: str = "BiasGelu", ir_version: int = 8, **attributes: object) -> bytes:
    """One node of Microsoft's domain, with names so long that its description is."""
    names = [f"{letter * 90}" for letter in "xy"]
    node = helper.make_node(
        kind, names, ["z" * 90], domain="com.microsoft", **attributes
    )
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [4])
        for name in [*names, "z" * 90]
    ]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "node", values[:2], values[2:])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)
    return bytes(model.SerializeToString())


def _refusal(graph: bytes) -> str:
    with pytest.raises(ModelError) as caught:
        open_graph(graph, "decoder.onnx", 1)
    return str(caught.value)


def test_oldest_runtime_is_required_by_pyproject() -> None:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    assert f"onnxruntime>={OLDEST_RUNTIME}" in project["dependencies"]


def test_open_graph_failure_cuts_long_reasons() -> None:
    message = _refusal(_graph(causal=0))
    assert "Unrecognized attribute: causal for operator BiasGelu" in message
    assert message.endswith("); convert the checkpoint again")
    assert len(message) < 300


def test_open_graph_failure_names_an_old_runtime(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "upgrade" not in _refusal(b"")
    monkeypatch.setattr(onnxruntime, "__version__", "1.29.0")
    assert _refusal(b"").endswith(
        f"or upgrade onnxruntime: 1.29.0 is installed, {OLDEST_RUNTIME} is needed"
    )


def test_open_graph_sets_threads_without_spinning() -> None:
    """A thread that spins while it waits takes a core from the rest of the pipeline."""
    for threads in (1, 2):
        options = open_graph(_graph(), "x", threads).get_session_options()
        assert options.intra_op_num_threads == threads
        assert (
            options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
        )


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        ({"audio_features"}, {"cross_key_0", "more"}),
        ({"audio_features", "more"}, {"cross_key_0"}),
        (set(), {"cross_key_0"}),
    ],
)
def test_open_session_with_other_ports_is_refused(
    model_directory: Path, spec: ModelSpec, inputs: set[str], outputs: set[str]
) -> None:
    with pytest.raises(ModelError, match=r"cross_kv\.onnx .*: (more|audio_features) "):
        open_session(
            model_directory, spec, 1, CROSS_KV_FILE, inputs=inputs, outputs=outputs
        )


def test_running_turns_errors_but_not_interrupts() -> None:
    with pytest.raises(KeyboardInterrupt), running("x"):
        raise KeyboardInterrupt
    with (
        pytest.raises(ModelError, match=r"^x .*\(no such axis\)"),
        running("x"),
    ):
        raise RuntimeError("no such axis")


@pytest.mark.parametrize("content", [b"", b"\xff" * 30, b"\x3a\xff\xff\xff\x7f"])
def test_open_graph_of_other_files_is_refused_in_one_line(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "encoder.onnx"
    for _ in range(2):
        with pytest.raises(
            ModelError, match=r"encoder\.onnx .*\(\[ONNXRuntimeError\].*\)"
        ) as caught:
            open_graph(path, str(path), 1)
        assert "\n" not in str(caught.value)
        path.write_bytes(content)  # it was missing before


def test_open_graph_limits_memory_to_that_of_the_machine() -> None:
    kinds = (TensorProto.FLOAT, TensorProto.INT64)
    nodes = [
        helper.make_node("Expand", ["x", "axes"], ["large"]),
        helper.make_node("ReduceMax", ["large"], ["m"], keepdims=0),
        helper.make_node("Reshape", ["m", "ones"], ["y"]),
    ]
    constants = [
        helper.make_tensor("axes", kinds[1], [3], [1000, 10**6, 10**3]),
        helper.make_tensor("ones", kinds[1], [1], [1]),
    ]
    value = [helper.make_tensor_value_info(name, kinds[0], [1]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", value[:1], value[1:], constants)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9
    )
    session = open_graph(model.SerializeToString(), "encoder", 1)
    with (
        pytest.raises(ModelError, match=r"^encoder .*ONNXRuntimeError"),
        running("encoder"),
    ):
        session.run(None, {"x": np.ones(1, np.float32)})
