"""The parts of a conversion: what each is written as, and what becomes of the rest if one fails."""

import hashlib
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.unit.convert.conftest import PLAIN
from whisper_hailo.checkpoint.hub import ASSETS
from whisper_hailo.convert import convert
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.spec import ModelSpec


def test_the_description_lists_every_file_as_it_is(tmp_path: Path) -> None:
    """With a tokenizer, by which a damaged one is noticed."""
    out = tmp_path / "out"
    convert_checkpoint(ASSETS / "micro", out, PLAIN)
    spec = ModelSpec.load(out)
    assert {name: (record.bytes, record.sha256) for name, record in spec.files.items()} == {
        path.name: (path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in out.iterdir()
        if path.name != "model.json"
    }
    assert (out / "tokenizer.json").is_file()


def _half_operators(path: Path) -> set[str]:
    """Operators of a graph that read what was cast to float16."""
    nodes = onnx.load(path, load_external_data=False).graph.node
    cast = {
        node.output[0]
        for node in nodes
        if node.op_type == "Cast" and node.attribute[0].i == onnx.TensorProto.FLOAT16
    }
    return {node.op_type for node in nodes if cast & {*node.input}}


@pytest.mark.parametrize("in_half", [False, True])
def test_graphs_are_in_half_as_the_description_says(
    checkpoint: Path, tmp_path: Path, in_half: bool
) -> None:
    """Each of them; that 8-bit products fit everywhere holds in both."""
    out = tmp_path / "out"
    convert_checkpoint(checkpoint, out, ConvertOptions("int8", "int8", half=in_half))
    spec = ModelSpec.load(out)
    assert (spec.half, spec.pairs_fit) == (in_half, True)
    found = {part: _half_operators(out / f"{part}.onnx") for part in ("encoder", "decoder")}
    assert {part: bool(operators) for part, operators in found.items()} == {
        "encoder": in_half,
        "decoder": in_half,
    }


def test_what_waits_behind_a_part_that_fails_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    given_up = threading.Event()

    class Pool(ThreadPoolExecutor):
        def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
            future = super().submit(*args, **kwargs)
            future.add_done_callback(lambda done: given_up.set() if done.cancelled() else None)
            return future

    monkeypatch.setattr(convert, "ThreadPoolExecutor", Pool)

    def fail() -> dict[str, Any]:
        raise ModelError("one line")

    def other() -> dict[str, Any]:
        """Ends when it is known that nothing is to follow; the bound is for a fault."""
        begun.append("part")
        given_up.wait(10)
        return {}

    def hashing() -> dict[str, str]:
        begun.append("hashes")
        return {}

    with pytest.raises(ModelError, match="one line"):
        convert._side_by_side(hashing, [fail, *[other] * 9])
    assert "hashes" not in begun
    assert len(begun) <= 2
