"""The stages of a build: parse, optimise, compile. Each result is kept with its inputs' hashes.

The Hailo Dataflow Compiler's Python package is imported here and nowhere else, when needed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
import struct
import sys
import zipfile
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from .job import (
    DEVICE,
    MODEL,
    BuildError,
    BuildJob,
    disk_errors,
    file_sha256,
    one_line,
    whole_file,
)
from .model_script import model_script, read_network

VERSIONS = {
    "hailo8": ((3, 31), (4, 0)),
    "hailo8l": ((3, 31), (4, 0)),
    "hailo10h": ((5, 0), (6, 0)),
}
"""First version that compiles for the chip, and the first that no longer does."""


def load_sdk() -> Any:  # noqa: ANN401 - a package without types
    """Import the compiler's package.

    Raises:
        BuildError: it is missing, or cannot be loaded.
    """
    try:
        import hailo_sdk_client
    except ModuleNotFoundError as error:
        if error.name != "hailo_sdk_client":
            raise BuildError(
                DEVICE,
                f"the Hailo compiler lacks {error.name}; install its package again",
            ) from error
        raise BuildError(
            DEVICE,
            "the Hailo Dataflow Compiler (hailo_sdk_client) is not installed for "
            f"{sys.executable}; use the Python that has it (compile --python PYTHON; of a bundle: "
            "PYTHON build.py), or pack the build with compile --bundle OUT.zip and run it where it "
            "is",
        ) from error
    except Exception as error:
        raise BuildError(
            DEVICE,
            f"the Hailo compiler cannot be loaded ({one_line(error)}); install it again",
        ) from error
    return hailo_sdk_client


def compiler_version(sdk: Any, arch: str) -> str:  # noqa: ANN401
    """Return the compiler's version.

    Raises:
        BuildError: it is unknown, or does not compile for this chip.
    """
    version = getattr(sdk, "__version__", None)
    if version is None:
        with contextlib.suppress(metadata.PackageNotFoundError):
            version = metadata.version("hailo_dataflow_compiler")
    expected = describe_versions(arch)
    match = re.match(r"(\d+)\.(\d+)", str(version))
    if match is None:
        raise BuildError(
            DEVICE, f"the Hailo compiler has no readable version, expected {expected}"
        )
    first, beyond = VERSIONS[arch]
    if not first <= (int(match[1]), int(match[2])) < beyond:
        raise BuildError(
            DEVICE,
            f"Hailo compiler {version} does not compile for {arch}, expected {expected}; install "
            "that one, or name a Python that has it with --python",
        )
    return str(version)


def describe_versions(arch: str) -> str:
    """Return the compiler's versions for a chip, for messages."""
    (major, minor), (beyond, _) = VERSIONS[arch]
    return f"{major}.{minor} or newer, below {beyond}.0"


def network_description(runner: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the parsed network (HN) of a runner.

    Versions of the compiler have it under two names, as a dictionary or as JSON text.
    """
    for name in ("get_hn_dict", "get_hn"):
        getter = getattr(runner, name, None)
        if getter is None:
            continue
        hn = getter()
        if isinstance(hn, str):
            hn = json.loads(hn)
        if isinstance(hn, dict) and "layers" in hn:
            return hn
    raise BuildError(
        MODEL,
        "this compiler does not report the parsed network's layers; give your own --script",
    )


def load_calibration(job: BuildJob) -> tuple[list[Any], int]:
    """Open the set of a job.

    Returns:
        one float32 array `(n_windows, height, width, channels)` per input, in the job's order,
        mapped from the file, and the number of windows.

    Raises:
        BuildError: no calibration set, or one of another model.
    """
    path = Path(job.calibration)
    n_inputs = len(job.chip_inputs)
    keys = [f"{job.net_name}/input_layer{number}" for number in range(1, n_inputs + 1)]
    advice = (
        f"make it with: whisper-hailo calibrate MODEL_DIR --audio DIR --part {job.part}"
    )
    try:
        if not zipfile.is_zipfile(path):
            arrays = [np.load(path, mmap_mode="r", allow_pickle=False)]
        else:
            with zipfile.ZipFile(path) as archive:
                arrays = [_map_array(archive, path, f"{key}.npy") for key in keys]
        if len(arrays) != len(keys):
            raise KeyError
    except KeyError as error:
        raise BuildError(
            MODEL, f"{path} has no array {', '.join(keys)}; {advice}"
        ) from error
    except Exception as error:  # NumPy and zipfile have several unrelated classes
        raise BuildError(
            MODEL, f"{path} is not a calibration set ({one_line(error)}); {advice}"
        ) from error
    for key, array, (_, *row_shape) in zip(keys, arrays, job.chip_inputs):  # noqa: B905 - same length
        fits = array.dtype == np.float32 and list(array.shape[1:]) == row_shape
        if not fits or len(array) == 0:
            axes = ", ".join(map(str, row_shape))
            raise BuildError(
                MODEL,
                f"{path}: {key} is {array.dtype} {array.shape}, expected float32 (n, {axes}) of "
                f"one or more windows; {advice}",
            )
    counts = {len(array) for array in arrays}
    if len(counts) != 1:
        raise BuildError(MODEL, f"{path} has inputs of different lengths; {advice}")
    return arrays, counts.pop()


def _map_array(archive: zipfile.ZipFile, path: Path, name: str) -> Any:  # noqa: ANN401 - an array
    """Map an array from an archive; one that is compressed or in another order is loaded."""
    info = archive.getinfo(name)
    with path.open("rb") as file:
        # The local header is 30 bytes, of which the last four are two lengths, and both texts.
        file.seek(info.header_offset + 26)
        n_name, n_extra = struct.unpack("<HH", file.read(4))
        file.seek(n_name + n_extra, os.SEEK_CUR)
        if info.compress_type == zipfile.ZIP_STORED:
            np.lib.format.read_magic(file)
            shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(file)
            if not is_fortran:
                return np.memmap(
                    path,
                    dtype=dtype,
                    mode="r",
                    offset=file.tell(),
                    shape=shape,
                )
    with archive.open(info) as member:
        return np.lib.format.read_array(member)


def match_inputs(
    arrays: list[Any], inputs: dict[str, tuple[int, ...]], job: BuildJob
) -> Any:  # noqa: ANN401 - what `optimize` takes
    """Return the set in the compiler's form: an array, or one per full name of an input layer.

    Inputs are matched by shape, in order where shapes agree: their names are the compiler's choice.
    """
    row_shapes = [tuple(shape[1:]) for shape in job.chip_inputs]
    names = list(inputs)
    matched = {}
    for array, shape in zip(arrays, row_shapes):  # noqa: B905 - same length
        name = next((name for name in names if inputs[name] == shape), None)
        if name is None:
            break
        names.remove(name)
        matched[name] = array
    if names or len(matched) != len(arrays):
        raise BuildError(
            MODEL,
            f"the parsed network takes {inputs}, the calibration set has {row_shapes}; convert the "
            "checkpoint again",
        )
    return arrays[0] if len(arrays) == 1 else matched


logger = logging.getLogger(__name__)

STATE_SUFFIX = ".build.json"
STARTED = ": started"
"""Ends the log line that begins a stage."""

PARSED = ".har"
OPTIMIZED = "_optimized.har"
COMPILED = "_compiled.har"
HEF = ".hef"
SCRIPT = ".alls"
"""Suffixes of the results."""


class Build:
    """One job, run stage by stage."""

    def __init__(self, job: BuildJob) -> None:
        """Check everything that can be checked before the compiler starts its hours of work."""
        self._job = job
        self._sdk = load_sdk()
        self._version = compiler_version(self._sdk, job.arch)
        self._arrays, self._n_windows = load_calibration(job)
        self._graph_sha256 = file_sha256(Path(job.graph))
        self._calibration_sha256 = file_sha256(Path(job.calibration))
        self._user_script = (
            None if job.script is None else _read_script(Path(job.script))
        )
        self._state_path = job.result(STATE_SUFFIX)
        self._runner: Any = None
        self._runner_stage = ""
        with disk_errors(job.out):
            Path(job.out).mkdir(parents=True, exist_ok=True)
        self._state = _read_state(self._state_path)

    def run(self) -> None:
        """Run the stages that are not done yet, and record all facts."""
        job = self._job
        common = [
            self._version,
            job.arch,
            job.net_name,
            *job.start_nodes,
            "|",
            *job.end_nodes,
        ]
        parsed = self._stage(
            "parse", [self._graph_sha256, *common], [PARSED], self._parse
        )
        script = self._write_script()
        inputs = [parsed, script, self._calibration_sha256, self._version]
        optimized = self._stage("optimize", inputs, [OPTIMIZED], self._optimize)
        self._stage(
            "compile", [optimized, self._version], [COMPILED, HEF], self._compile
        )
        self._state["facts"] = {
            "arch": job.arch,
            "part": job.part,
            "compiler_version": self._version,
            "graph_sha256": self._graph_sha256,
            "calibration_sha256": self._calibration_sha256,
            "calibration_windows": self._n_windows,
            "script_sha256": script,
            "own_script": self._user_script is not None,
        }
        self._save_state()

    def _stage(
        self,
        name: str,
        inputs: list[str],
        suffixes: list[str],
        work: Callable[[], None],
    ) -> str:
        """Run a stage unless its results are there, whole, and from the same inputs."""
        key = hashlib.sha256("\n".join(inputs).encode()).hexdigest()
        record = self._state.get(name)
        if (
            isinstance(record, dict)
            and record.get("inputs") == key
            and self._has_results(record)
        ):
            logger.info("%s: already done, kept", name)
            return str(record["results"][suffixes[0]])
        logger.info("%s%s", name, STARTED)
        with _compiler_errors(name), disk_errors(self._job.out):
            work()
        results = {suffix: file_sha256(self._job.result(suffix)) for suffix in suffixes}
        self._state[name] = {"inputs": key, "results": results}
        self._save_state()
        logger.info("%s: finished", name)
        return results[suffixes[0]]

    def _parse(self) -> None:
        job = self._job
        self._runner = self._sdk.ClientRunner(hw_arch=job.arch)
        self._runner.translate_onnx_model(
            job.graph,
            job.net_name,
            start_node_names=list(job.start_nodes),
            end_node_names=list(job.end_nodes),
        )
        self._save_har(PARSED)

    def _optimize(self) -> None:
        runner = self._runner_of(PARSED)
        network = read_network(network_description(runner))
        data = match_inputs(self._arrays, network.inputs, self._job)
        runner.load_model_script(str(self._job.result(SCRIPT)))
        runner.optimize(calib_data=data, work_dir=self._job.out)
        self._save_har(OPTIMIZED)

    def _compile(self) -> None:
        hef = self._runner_of(OPTIMIZED).compile()
        self._save_har(COMPILED)
        write_whole(self._job.result(HEF), hef)

    def _write_script(self) -> str:
        """Write the user's script, or one for the parsed network; return its SHA-256."""
        text = self._user_script
        if text is None:
            with _compiler_errors(f"read {self._job.result(PARSED)}"):
                network = read_network(network_description(self._runner_of(PARSED)))
            text = model_script(self._job, network, self._n_windows)
        write_whole(self._job.result(SCRIPT), text.encode())
        return file_sha256(self._job.result(SCRIPT))

    def _runner_of(self, suffix: str) -> Any:  # noqa: ANN401 - the compiler's runner
        """Return the runner that made this stage, or a new one that continues from its HAR."""
        if self._runner_stage != suffix:
            self._runner = self._sdk.ClientRunner(har=str(self._job.result(suffix)))
            self._runner_stage = suffix
        return self._runner

    def _save_har(self, suffix: str) -> None:
        """Save under a name of its own first: a HAR is either whole or not there."""
        with whole_file(self._job.result(suffix)) as partial:
            self._runner.save_har(str(partial))
        self._runner_stage = suffix

    def _has_results(self, record: dict[str, Any]) -> bool:
        """Return whether the results of a recorded stage are there and unchanged."""
        results = record.get("results")
        if not isinstance(results, dict):
            return False
        for suffix, digest in results.items():
            path = self._job.result(suffix)
            if not path.is_file() or file_sha256(path) != digest:
                return False
        return True

    def _save_state(self) -> None:
        text = json.dumps(self._state, indent=2, sort_keys=True) + "\n"
        write_whole(self._state_path, text.encode())


def _read_script(path: Path) -> str:
    try:
        if not path.is_file():
            raise ValueError("it is not a regular file")  # a pipe may have no end
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise BuildError(
            MODEL, f"cannot read the model script {path} ({error})"
        ) from error


def _read_state(path: Path) -> dict[str, Any]:
    """Return the stages that are done; none if the file is missing or broken."""
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that is either whole or as before."""
    with disk_errors(path), whole_file(path) as partial:
        partial.write_bytes(data)


@contextlib.contextmanager
def _compiler_errors(action: str) -> Iterator[None]:
    """Raise the compiler's errors, of dozens of classes, as a `BuildError` of one line."""
    try:
        yield
    except BuildError:
        raise
    except Exception as error:
        raise BuildError(
            MODEL,
            f"the Hailo compiler failed to {action} ({one_line(error)}); see the log",
        ) from error
