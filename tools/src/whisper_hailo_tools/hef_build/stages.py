"""Parse, optimise, compile; each stage is done once and kept with the hashes of its inputs.

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

VERSIONS = {"hailo8": ((3, 31), (4, 0)), "hailo8l": ((3, 31), (4, 0)), "hailo10h": ((5, 0), (6, 0))}
"""First version that compiles for the chip, and the first that no longer does."""


def load_sdk() -> Any:  # noqa: ANN401 - a package without types
    """Import the compiler's package."""
    try:
        import hailo_sdk_client
    except ModuleNotFoundError as error:
        if error.name != "hailo_sdk_client":
            raise BuildError(
                DEVICE, f"the Hailo compiler lacks {error.name}; install its package again"
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
            DEVICE, f"the Hailo compiler cannot be loaded ({one_line(error)}); install it again"
        ) from error
    return hailo_sdk_client


def compiler_version(sdk: Any, arch: str) -> str:  # noqa: ANN401
    """Return the compiler's version, if it is one for this chip."""
    version = getattr(sdk, "__version__", None)
    if version is None:
        with contextlib.suppress(metadata.PackageNotFoundError):
            version = metadata.version("hailo_dataflow_compiler")
    numbers = re.match(r"(\d+)\.(\d+)", str(version))
    first, beyond = VERSIONS[arch]
    wanted = f"{first[0]}.{first[1]} or newer, below {beyond[0]}.0"
    if numbers is None:
        raise BuildError(DEVICE, f"the Hailo compiler has no readable version, expected {wanted}")
    if not first <= (int(numbers.group(1)), int(numbers.group(2))) < beyond:
        raise BuildError(
            DEVICE,
            f"Hailo compiler {version} does not compile for {arch}, expected {wanted}; install "
            "that one, or name a Python that has it with --python",
        )
    return str(version)


def network_description(runner: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the parsed network (HN) of a runner.

    Versions differ in what gives it: a dictionary or JSON text, of two names.
    """
    for name in ("get_hn_dict", "get_hn"):
        getter = getattr(runner, name, None)
        if getter is None:
            continue
        hn = getter()
        hn = json.loads(hn) if isinstance(hn, str) else hn
        if isinstance(hn, dict) and "layers" in hn:
            return hn
    raise BuildError(
        MODEL,
        "this compiler does not tell the parsed network's layers; give a --script of your own",
    )


def load_calibration(job: BuildJob) -> tuple[list[Any], int]:
    """Open the set of a job.

    Returns:
        one float32 array `(n_windows, height, width, channels)` per input, in the job's order,
        mapped from the file, and the number of windows.
    """
    path = Path(job.calibration)
    keys = [f"{job.net_name}/input_layer{i + 1}" for i in range(len(job.chip_inputs))]
    advice = f"make it with: whisper-hailo calibrate MODEL_DIR --audio DIR --part {job.part}"
    try:
        if not zipfile.is_zipfile(path):
            arrays = [np.load(path, mmap_mode="r", allow_pickle=False)]
        else:
            with zipfile.ZipFile(path) as archive:
                arrays = [_map_array(archive, path, f"{key}.npy") for key in keys]
        if len(arrays) != len(keys):
            raise KeyError
    except KeyError as error:
        raise BuildError(MODEL, f"{path} has no array {', '.join(keys)}; {advice}") from error
    except Exception as error:  # NumPy and zipfile have several unrelated classes
        raise BuildError(
            MODEL, f"{path} is no calibration set ({one_line(error)}); {advice}"
        ) from error
    for key, array, shape in zip(keys, arrays, job.chip_inputs):  # noqa: B905 - same length
        fits = array.dtype == np.float32 and list(array.shape[1:]) == shape[1:]
        if not fits or len(array) == 0:
            raise BuildError(
                MODEL,
                f"{path}: {key} is {array.dtype} {array.shape}, expected float32 (n, "
                f"{', '.join(map(str, shape[1:]))}) of one or more windows; {advice}",
            )
    counts = {len(array) for array in arrays}
    if len(counts) != 1:
        raise BuildError(MODEL, f"{path} has inputs of different lengths; {advice}")
    return arrays, counts.pop()


def _map_array(archive: zipfile.ZipFile, path: Path, name: str) -> Any:  # noqa: ANN401 - an array
    """Map an array from an archive; one that is compressed or in another order is loaded."""
    info = archive.getinfo(name)
    with path.open("rb") as file:
        file.seek(info.header_offset + 26)
        n_name, n_extra = struct.unpack("<HH", file.read(4))
        file.seek(n_name + n_extra, os.SEEK_CUR)
        if info.compress_type == zipfile.ZIP_STORED:
            np.lib.format.read_magic(file)
            shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(file)
            if not is_fortran:
                return np.memmap(path, dtype=dtype, mode="r", offset=file.tell(), shape=shape)
    with archive.open(info) as member:
        return np.lib.format.read_array(member)


def match_inputs(arrays: list[Any], inputs: dict[str, tuple[int, ...]], job: BuildJob) -> Any:  # noqa: ANN401 - what `optimize` takes
    """Return the set as the compiler takes it: an array, or one per full name of an input layer.

    Inputs are matched by shape, in order where shapes agree: names are the compiler's business.
    """
    names = list(inputs)
    matched = {}
    for array, wanted in zip(arrays, job.chip_inputs):  # noqa: B905 - same length
        shape = tuple(wanted[1:])
        name = next((name for name in names if inputs[name] == shape), None)
        if name is None:
            break
        names.remove(name)
        matched[name] = array
    if names or len(matched) != len(arrays):
        raise BuildError(
            MODEL,
            f"the parsed network takes {inputs}, the calibration set has "
            f"{[tuple(shape[1:]) for shape in job.chip_inputs]}; convert the checkpoint again",
        )
    return arrays[0] if len(arrays) == 1 else matched


logger = logging.getLogger(__name__)

STATE_SUFFIX = ".build.json"
STARTED = ": started"
"""Ends the log line that begins a stage."""

PARSED, OPTIMIZED, COMPILED = ".har", "_optimized.har", "_compiled.har"
HEF, SCRIPT = ".hef", ".alls"


class Build:
    """One job on its way through the compiler."""

    def __init__(self, job: BuildJob) -> None:
        """Look at everything that can be looked at before the compiler starts its hours."""
        self._job = job
        self._sdk = load_sdk()
        self._version = compiler_version(self._sdk, job.arch)
        self._arrays, self._n_windows = load_calibration(job)
        self._graph_sha256 = file_sha256(Path(job.graph))
        self._calibration_sha256 = file_sha256(Path(job.calibration))
        self._own_script = None
        if job.script is not None:
            try:
                if not Path(job.script).is_file():
                    raise ValueError("it is no plain file")  # it may have no end
                self._own_script = Path(job.script).read_text(encoding="utf-8")
            except (OSError, ValueError) as error:
                raise BuildError(
                    MODEL, f"cannot read the model script {job.script} ({error})"
                ) from error
        self._state_path = job.result(STATE_SUFFIX)
        self._runner: Any = None
        self._runner_at = ""
        with disk_errors(job.out):
            Path(job.out).mkdir(parents=True, exist_ok=True)
        self._state: dict[str, Any] = {}
        with contextlib.suppress(OSError, ValueError):  # missing or broken: nothing was done
            state = json.loads(self._state_path.read_text(encoding="utf-8"))
            self._state = state if isinstance(state, dict) else {}

    def run(self) -> None:
        """Do what is not done yet, and record it all."""
        job = self._job
        common = [self._version, job.arch, job.net_name, *job.start_nodes, "|", *job.end_nodes]
        parsed = self._stage("parse", [self._graph_sha256, *common], [PARSED], self._parse)
        script = self._write_script()
        inputs = [parsed, script, self._calibration_sha256, self._version]
        optimized = self._stage("optimize", inputs, [OPTIMIZED], self._optimize)
        self._stage("compile", [optimized, self._version], [COMPILED, HEF], self._compile)
        self._state["facts"] = {
            "arch": job.arch,
            "part": job.part,
            "compiler_version": self._version,
            "graph_sha256": self._graph_sha256,
            "calibration_sha256": self._calibration_sha256,
            "calibration_windows": self._n_windows,
            "script_sha256": script,
            "own_script": self._own_script is not None,
        }
        self._save_state()

    def _stage(
        self, name: str, inputs: list[str], suffixes: list[str], work: Callable[[], None]
    ) -> str:
        """Run a stage unless its results are there, whole, and from the same inputs."""
        key = hashlib.sha256("\n".join(inputs).encode()).hexdigest()
        record = self._state.get(name)
        if isinstance(record, dict) and record.get("inputs") == key and self._whole(record):
            logger.info("%s: done before, kept", name)
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
        runner = self._opened(PARSED)
        network = read_network(network_description(runner))
        data = match_inputs(self._arrays, network.inputs, self._job)
        runner.load_model_script(str(self._job.result(SCRIPT)))
        runner.optimize(calib_data=data, work_dir=self._job.out)
        self._save_har(OPTIMIZED)

    def _compile(self) -> None:
        hef = self._opened(OPTIMIZED).compile()
        self._save_har(COMPILED)
        write_whole(self._job.result(HEF), hef)

    def _write_script(self) -> str:
        """Write the user's script, or one for the parsed network; returns its SHA-256."""
        text = self._own_script
        if text is None:
            with _compiler_errors(f"read {self._job.result(PARSED)}"):
                network = read_network(network_description(self._opened(PARSED)))
            text = model_script(self._job, network, self._n_windows)
        write_whole(self._job.result(SCRIPT), text.encode())
        return file_sha256(self._job.result(SCRIPT))

    def _opened(self, suffix: str) -> Any:  # noqa: ANN401 - the compiler's runner
        """Return the runner that made this stage, or a new one that goes on from its HAR."""
        if self._runner_at != suffix:
            self._runner = self._sdk.ClientRunner(har=str(self._job.result(suffix)))
            self._runner_at = suffix
        return self._runner

    def _save_har(self, suffix: str) -> None:
        """Save under a name of its own first: a HAR is either whole or not there."""
        with whole_file(self._job.result(suffix)) as partial:
            self._runner.save_har(str(partial))
        self._runner_at = suffix

    def _whole(self, record: dict[str, Any]) -> bool:
        results = record.get("results")
        if not isinstance(results, dict):
            return False
        paths = {self._job.result(suffix): digest for suffix, digest in results.items()}
        return all(path.is_file() and file_sha256(path) == found for path, found in paths.items())

    def _save_state(self) -> None:
        text = json.dumps(self._state, indent=2, sort_keys=True) + "\n"
        write_whole(self._state_path, text.encode())


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that is either whole or as before."""
    with disk_errors(path), whole_file(path) as partial:
        partial.write_bytes(data)


@contextlib.contextmanager
def _compiler_errors(action: str) -> Iterator[None]:
    """Raise an error of the compiler, which has dozens of classes, as one line."""
    try:
        yield
    except BuildError:
        raise
    except Exception as error:
        raise BuildError(
            MODEL, f"the Hailo compiler failed to {action} ({one_line(error)}); see the log"
        ) from error
