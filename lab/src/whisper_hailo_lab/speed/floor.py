"""A decoder step against its floor: the bytes that it must read, at the speed of reading them.

    python -m whisper_hailo_lab.speed.floor MODEL QUANTIZE THREADS

At batch 1 nothing is read twice, so no step can be quicker than one read of weights, keys and
values. How fast this process reads is measured in the same rounds, over a buffer of that size, by
the quickest of several ways to read all of it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Final

import numpy as np

from whisper_hailo.convert.model_cache import resolve_model
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.spec import DECODER_FILE, ModelSpec
from whisper_hailo.core.types import FRAMES_PER_POSITION, FRAMES_PER_SECOND, SAMPLE_RATE_HZ
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.transcriber import Transcriber
from whisper_hailo_lab.runs.records import FORCED_CROP_S

ROUNDS: Final = 15
MANY, FEW = 28, 8
LOOKUPS: Final = frozenset({"Gather", "GatherBlockQuantized", "GatherND"})
"""Operators that read single rows of what they are given."""


def step_bytes(directory: Path, spec: ModelSpec) -> dict[str, int]:
    """Bytes that a step reads at the least: weights, cross keys and values, the cache."""
    import onnx

    graph = onnx.load(str(directory / DECODER_FILE), load_external_data=False).graph
    read = {name for node in _nodes(graph) if node.op_type not in LOOKUPS for name in node.input}
    weights = sum(_size(tensor) for tensor in graph.initializer if tensor.name in read)
    positions = round(FORCED_CROP_S * FRAMES_PER_SECOND / FRAMES_PER_POSITION)
    dims = spec.dims
    row = 2 * dims.n_decoder_layers * dims.d_model
    cached = (MANY + FEW) // 2
    return {
        "weights": weights,
        "cross": row * positions * _item_size(graph, "cross"),
        "cache": row * cached * _item_size(graph, "past"),
    }


def _nodes(graph: Any) -> Iterator[Any]:  # noqa: ANN401 - protobuf
    """All nodes, those of graphs inside nodes too."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g)


def _size(tensor: Any) -> int:  # noqa: ANN401 - protobuf
    from onnx.helper import tensor_dtype_to_np_dtype

    bits = {21: 4, 22: 4}.get(tensor.data_type)  # UINT4 and INT4 lie two in a byte
    bits = bits or 8 * tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    return int(np.prod(tensor.dims, dtype=np.int64)) * bits // 8


def _item_size(graph: Any, kind: str) -> int:  # noqa: ANN401 - protobuf
    """Bytes of a number of the first input whose name begins so; 4 where there is none."""
    from onnx.helper import tensor_dtype_to_np_dtype

    for port in graph.input:
        if port.name.startswith(f"{kind}_"):
            return int(tensor_dtype_to_np_dtype(port.type.tensor_type.elem_type).itemsize)
    return 4


def readers(n_bytes: int) -> list[Callable[[], object]]:
    """Ways to read so many bytes once."""
    words = np.ones(n_bytes // 8, np.float64)
    singles, integers = words.view(np.float32), words.view(np.int64)
    return [lambda: singles @ singles, lambda: words @ words, integers.max, integers.sum]


def measure(model: str, quantize: str, threads: int) -> dict[str, Any]:
    """Rounds of decoding many tokens, few tokens, and reading, each in its turn."""
    convert = ConvertOptions(quantize, "none")
    directory = resolve_model(model, convert)
    parts = step_bytes(directory, ModelSpec.load(directory))
    read = readers(sum(parts.values()))
    audio = np.random.default_rng(0).standard_normal(round(FORCED_CROP_S * SAMPLE_RATE_HZ))
    samples = (0.1 * audio).astype(np.float32)
    steps_ms, reads_ms, cpu_ms = [], [], []
    with Transcriber.from_model(model, convert=convert, margin_s=0.0, threads=threads) as open_one:

        def decode(tokens: int) -> tuple[float, float]:
            cpu = process_time()
            options = DecodingOptions(language="en", max_new_tokens=tokens)
            timings = open_one.transcribe(samples, options).timings
            return timings.decode_ms, (process_time() - cpu) * 1000.0

        for number in range(2 + ROUNDS):
            many, few = decode(MANY), decode(FEW)
            fastest = min(_timed_ms(way) for way in read for _ in range(3))
            if number >= 2:
                steps_ms.append((many[0] - few[0]) / (MANY - FEW))
                cpu_ms.append((many[1] - few[1]) / (MANY - FEW))
                reads_ms.append(fastest)
    step_ms, floor_ms = float(np.median(steps_ms)), float(np.median(reads_ms))
    return {
        "decoder": quantize,
        "threads": threads,
        "bytes": parts,
        "step_ms": step_ms,
        "cpu_ms": float(np.median(cpu_ms)),
        "floor_ms": floor_ms,
        "gb_per_s": sum(parts.values()) / floor_ms / 1e6,
        "ratio": float(np.median(np.array(steps_ms) / np.array(reads_ms))),
        "steps_ms": steps_ms,
        "reads_ms": reads_ms,
    }


def _timed_ms(work: Callable[[], object]) -> float:
    begin = perf_counter()
    work()
    return (perf_counter() - begin) * 1000.0


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure(sys.argv[1], sys.argv[2], int(sys.argv[3]))) + "\n")
