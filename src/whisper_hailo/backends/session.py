"""Sessions of ONNX Runtime: opening graphs, running them, and errors of one line."""

from __future__ import annotations

import os
import re
from collections.abc import Set
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from whisper_hailo.backends.model_files import model_file
from whisper_hailo.core.errors import ModelError, display_path
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.spec import ModelSpec

if TYPE_CHECKING:
    import onnxruntime

CONVERT_AGAIN: Final = "convert the checkpoint again"
EXPORT_AGAIN: Final = "export the checkpoint again"
"""Advice for our graphs, and for those of other programs."""

_REASON_HEAD: Final = 60
_REASON_TAIL: Final = 135
"""Characters kept of a long reason; in its middle are the types of all inputs of a node."""


class running:  # noqa: N801 - used as a function
    """Turn an engine's exceptions, of a dozen unrelated classes, into a `ModelError` of one line.

    It is a class, since a generator takes three times as long around every pass (0.7 instead of
    0.2 µs).
    """

    __slots__ = ("_advice", "_name")

    def __init__(self, name: str, advice: str = CONVERT_AGAIN) -> None:
        self._name = name
        self._advice = advice

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: object, error: BaseException | None, trace: object
    ) -> None:
        if isinstance(error, Exception):
            raise ModelError(
                f"{self._name} failed ({reason_of(error)}); {self._advice}"
            ) from error


def reason_of(error: BaseException) -> str:
    """Return an error of the runtime in one line."""
    text = " ".join(str(error).split())
    if len(text) <= _REASON_HEAD + _REASON_TAIL:
        return text
    return f"{text[:_REASON_HEAD]} ... {text[-_REASON_TAIL:]}"


FATAL_ONLY = 4
"""ONNX Runtime's own log on stderr: errors reach the caller as exceptions instead."""

PROVIDERS = ["CPUExecutionProvider"]

OLDEST_RUNTIME: Final = "1.30.0"
"""Before it `GroupQueryAttention` has no attribute `causal`. pyproject.toml asks for the same."""


def open_session(
    directory: Path,
    spec: ModelSpec,
    threads: int,
    file: str,
    *,
    inputs: Set[str],
    outputs: Set[str],
) -> onnxruntime.InferenceSession:
    """Load one graph of a model directory.

    `inputs` are all that it has, `outputs` those that it must have.

    Raises:
        ModelError: it cannot be loaded, or is the graph of another model.
    """
    path = model_file(directory, spec, file)
    session = open_graph(
        path, str(path), threads, int8_safe_without_vnni=spec.int8_safe_without_vnni
    )
    graph_inputs = {value.name for value in session.get_inputs()}
    graph_outputs = {value.name for value in session.get_outputs()}
    differing = sorted((graph_inputs ^ inputs) | (outputs - graph_outputs))
    if differing:
        names = ", ".join(differing[:3])
        raise ModelError(
            f"{display_path(path)} is the graph of another model or program: "
            f"{names} differs; convert the checkpoint again"
        )
    return session


def open_graph(
    source: Path | bytes,
    name: str,
    threads: int,
    advice: str = CONVERT_AGAIN,
    *,
    int8_safe_without_vnni: bool = False,
) -> onnxruntime.InferenceSession:
    """Load a graph from a file or its bytes, called `name` in messages that end with `advice`.

    `int8_safe_without_vnni` is explained by `ModelSpec`: its 8-bit products are exact everywhere.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = FATAL_ONLY
    # A plan of memory for each set of sizes would be made at every step of a growing text, and its
    # block be held beside the first run's (docs/measurements/speed.md).
    options.enable_mem_pattern = False
    # One arena for all sessions: the decoder may use the memory that the encoder gave back.
    _register_arena()
    options.add_session_config_entry("session.use_env_allocators", "1")
    # Threads that spin while they wait take the cores from everything else in the pipeline: on a
    # busy two-core machine a decoder step is twice as fast without.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if not int8_safe_without_vnni and saturates():
        options.add_session_config_entry(*EXACT_PRODUCTS)
    try:
        return onnxruntime.InferenceSession(
            source, sess_options=options, providers=PROVIDERS
        )
    except Exception as error:  # the runtime has a dozen unrelated exception classes
        version = onnxruntime.__version__
        if is_old_runtime(version):  # pip may have been forced to keep it
            advice += (
                f", or upgrade onnxruntime: {version} is installed, "
                f"{OLDEST_RUNTIME} is needed"
            )
        raise ModelError(
            f"{name} cannot be loaded ({reason_of(error)}); {advice}"
        ) from error


EXACT_PRODUCTS: Final = ("session.x64quantprecision", "1")
"""The runtime's setting that keeps codes without a sign, whose products it adds in 32 bits.

Without VNNI it adds the products of two neighbours in 16 bits, for which only graphs of ours leave
room (`ModelSpec.int8_safe_without_vnni`); others give wrong text unnoticed (docs/decisions.md).
With VNNI the exact kernels are 2.4 times slower than the usual ones, and no more exact.
"""


@cache
def saturates() -> bool:
    """Return whether sums of 8-bit products are cut off here.

    The smallest product that shows it is run: only the runtime knows which kernel it chose.
    """
    import onnxruntime
    from onnx import parser

    code = 255
    weight = 127  # two such products are more than 16 bits hold
    weights = ", ".join([str(weight)] * 64)
    model = parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
        pair (uint8[4, 4] codes) => (int32[4, 16] sums) <int8[4, 16] weights = {{{weights}}}>
        {{ sums = MatMulInteger(codes, weights) }}""")
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=PROVIDERS
    )
    (sums,) = session.run(None, {"codes": np.full((4, 4), code, np.uint8)})
    return bool((sums != 4 * code * weight).any())


def is_old_runtime(version: str) -> bool:
    """Return whether an ONNX Runtime of this version, such as `1.29.0`, is too old."""
    return _version_numbers(version) < _version_numbers(OLDEST_RUNTIME)


def _version_numbers(version: str) -> list[int]:
    """Return the first three numbers of a version."""
    return [int(number) for number in re.findall(r"\d+", version)[:3]]


_RUNTIMES_CHOICE: Final = -1


@cache
def _register_arena() -> None:
    """Make one arena of memory for all sessions of this process that ask for it."""
    import onnxruntime

    memory = onnxruntime.OrtMemoryInfo(
        "Cpu",
        onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR,
        0,
        onnxruntime.OrtMemType.DEFAULT,
    )
    settings = onnxruntime.OrtArenaCfg(
        {
            # An allocation beyond the machine's memory fails with an error that we can report.
            "max_mem": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
            "arena_extend_strategy": _RUNTIMES_CHOICE,
            "initial_chunk_size_bytes": _RUNTIMES_CHOICE,
            "max_dead_bytes_per_chunk": _RUNTIMES_CHOICE,
        }
    )
    # A program around this one may have registered its own, which serves as well.
    with suppress(RuntimeError):
        onnxruntime.create_and_register_allocator(memory, settings)


AnyArray: TypeAlias = NDArray[Any]


class OneGraph(Closing):
    """One ONNX file, by default one that no model directory describes.

    `name` is that of the backend, `threads` are those of one operator; 0 lets the runtime choose.
    """

    advice = EXPORT_AGAIN

    def __init__(self, path: Path, threads: int, name: str) -> None:
        self.path = path
        self.threads = threads
        self.name = name
        self._session: onnxruntime.InferenceSession | None = None

    def load(self) -> onnxruntime.InferenceSession:
        return open_graph(self.path, str(self.path), self.threads, self.advice)

    def open(self) -> Self:
        if self._session is None:
            self._session = self.load()
        return self

    def close(self) -> None:
        self._session = None

    def compute(self, output: str, arrays: dict[str, AnyArray]) -> AnyArray:
        """Return one output for arrays by input name, in the graph's own shape and dtype."""
        session = require_open(self._session, self.name)
        with running(str(self.path), self.advice):
            result: AnyArray = session.run([output], arrays)[0]
        return result


def require_open(
    session: onnxruntime.InferenceSession | None, name: str
) -> onnxruntime.InferenceSession:
    """Return a session that `open` made.

    Raises:
        ModelError: it did not.
    """
    if session is None:
        raise ModelError(f"{name} is not loaded; it was closed while it was in use")
    return session
