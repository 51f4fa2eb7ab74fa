"""Resident memory of a decoder whose embedding and projection share one table, or do not.

Each graph is loaded in a fresh process. `one`: one initializer for both ends (float32 only, where
both take the same shape); `two`: bytes of their own for each; `mapped`: two initializers over the
same bytes of a data file, which is what `convert` writes. Prints one JSON line per case.

    python benchmarks/vocabulary_table.py --checkpoint DIR
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.convert.graphs.builder import FLOAT, INT64, Graph, GraphBuilder, Initializer
from whisper_hailo.convert.graphs.decoder_ends import embed_tokens, project_to_vocabulary
from whisper_hailo.convert.graphs.onnx_file import write_graph

BITS = {"none": None, "int8": 8, "int4": 4}
FORMS = {"none": ("one", "two", "mapped"), "int8": ("two", "mapped"), "int4": ("two", "mapped")}
N_RUNS = 20


def ends_only(checkpoint: Checkpoint, bits: int | None) -> Graph:
    """A decoder without layers: both ends of the vocabulary and nothing between."""
    dims = checkpoint.config.dims
    b = GraphBuilder("ends")
    tokens = b.input("tokens", INT64, ("batch", "n"))
    positions = b.input("positions", INT64, ("batch", "n"))
    hidden = embed_tokens(b, checkpoint, tokens, positions, bits)
    project_to_vocabulary(b, checkpoint, hidden, bits)
    b.output(hidden, FLOAT, ("batch", "n", dims.d_model))
    return b.build()


def without_views(graph: Graph, *, merge: bool) -> Graph:
    """The same graph with each view merged into what it views, or given bytes of its own."""
    if not merge:
        plain = tuple(Initializer(item.name, item.weight) for item in graph.initializers)
        return Graph(graph.proto, plain)
    renamed = {item.name: item.same_bytes_as for item in graph.initializers if item.same_bytes_as}
    for node in graph.proto.node:
        for i, name in enumerate(node.input):
            node.input[i] = renamed.get(name) or name
    kept = tuple(item for item in graph.initializers if item.name not in renamed)
    return Graph(graph.proto, kept)


def _memory_mib(field: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise KeyError(field)


def measure(path: Path) -> dict[str, float]:
    """Load one graph and run it; figures are differences to the process before loading."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    feeds = {"tokens": np.array([[7]]), "positions": np.array([[0]])}
    rss, anonymous = _memory_mib("VmRSS"), _memory_mib("RssAnon")
    start = time.perf_counter()
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    load_s = time.perf_counter() - start
    times = []
    for _ in range(N_RUNS):
        start = time.perf_counter()
        session.run(["logits", "logsumexp"], feeds)
        times.append(time.perf_counter() - start)
    return {
        "load_s": round(load_s, 3),
        "rss_mib": round(_memory_mib("VmRSS") - rss, 1),
        "anonymous_mib": round(_memory_mib("RssAnon") - anonymous, 1),
        "median_ms": round(float(np.median(times)) * 1e3, 2),
        "min_ms": round(min(times) * 1e3, 2),
        "file_mb": round(sum(f.stat().st_size for f in path.parent.glob(path.name + "*")) / 1e6, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure)))
        return
    checkpoint = Checkpoint(arguments.checkpoint)
    with tempfile.TemporaryDirectory() as directory:
        for quantize, bits in BITS.items():
            for form in FORMS[quantize]:
                graph = ends_only(checkpoint, bits)
                if form != "mapped":
                    graph = without_views(graph, merge=form == "one")
                path = Path(directory) / f"{quantize}-{form}.onnx"
                write_graph(graph, path, external=form == "mapped")
                command = [sys.executable, __file__, "--measure", str(path)]
                result = subprocess.run(command, check=True, capture_output=True, text=True)
                print(
                    json.dumps({"table": form, "quantize": quantize, **json.loads(result.stdout)})
                )


if __name__ == "__main__":
    main()
