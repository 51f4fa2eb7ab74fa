"""What is said of graphs that the runtime does not load."""

from __future__ import annotations

import tomllib
from pathlib import Path

import onnxruntime
import pytest
from onnx import TensorProto, helper

from whisper_hailo.backends.session import OLDEST_RUNTIME, open_graph
from whisper_hailo.core.errors import ModelError

_ROOT = Path(__file__).parents[3]


def _graph(kind: str = "BiasGelu", ir_version: int = 8, **attributes: object) -> bytes:
    """One node of Microsoft's domain, with names so long that its description is."""
    names = [f"{letter * 90}" for letter in "xy"]
    node = helper.make_node(kind, names, ["z" * 90], domain="com.microsoft", **attributes)
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in [*names, "z" * 90]
    ]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "one", values[:2], values[2:])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)
    return bytes(model.SerializeToString())


def _refusal(graph: bytes) -> str:
    with pytest.raises(ModelError) as caught:
        open_graph(graph, "decoder.onnx", 1)
    return str(caught.value)


def test_the_package_asks_for_the_oldest_runtime_that_will_do() -> None:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"onnxruntime>={OLDEST_RUNTIME}" in project["dependencies"]


@pytest.mark.parametrize(
    ("graph", "end"),
    [
        (_graph(causal=0), "Unrecognized attribute: causal for operator BiasGelu"),
        (_graph("NotYetThere"), "is not a registered function/op"),
        (_graph(ir_version=99), "Unsupported model IR version: 99"),
    ],
)
def test_a_graph_newer_than_the_runtime_is_told_by_its_reason(graph: bytes, end: str) -> None:
    message = _refusal(graph)
    assert end in message
    assert message.endswith("); convert the checkpoint again, or upgrade onnxruntime")
    assert len(message) < 300


def test_an_old_runtime_is_named_whatever_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "upgrade" not in _refusal(b"")
    monkeypatch.setattr(onnxruntime, "__version__", "1.29.0")
    assert _refusal(b"").endswith(
        f"or upgrade onnxruntime: 1.29.0 is installed, {OLDEST_RUNTIME} is needed"
    )
