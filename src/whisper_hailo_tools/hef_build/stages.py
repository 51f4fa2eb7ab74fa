"""Parse, optimise, compile; each stage is done once and kept with the hashes of its inputs."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .job import MODEL, BuildError, BuildJob, disk_error, file_sha256, one_line
from .model_script import model_script, read_network, renumbered
from .sdk import compiler_version, load_sdk, network_description, new_runner


def load_calibration(job: BuildJob) -> tuple[list[Any], int]:
    """Open the set of a job.

    Args:
        job: names the file and the shapes `(1, height, width, channels)` of the inputs.

    Returns:
        one float32 array `(n_windows, height, width, channels)` per input, in the job's order
        (an encoder's is mapped from the file), and the number of windows.
    """
    path = Path(job.calibration)
    keys = [f"{job.net_name}/input_layer{i + 1}" for i in range(len(job.chip_inputs))]
    try:
        if len(keys) == 1:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
            if not isinstance(array, np.ndarray):
                array.close()
                raise ValueError("an archive, expected one array")
            arrays = [array]
        else:
            archive = np.load(path, mmap_mode="r", allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise KeyError(keys[0])
            with archive:
                arrays = [archive[key] for key in keys]
    except KeyError as error:
        raise BuildError(
            MODEL, f"{path} has no array {error}, expected {', '.join(keys)}; {_advice(job)}"
        ) from error
    except Exception as error:  # NumPy and zipfile have several unrelated classes
        raise BuildError(
            MODEL, f"{path} is no calibration set ({one_line(error)}); {_advice(job)}"
        ) from error
    for key, array, shape in zip(keys, arrays, job.chip_inputs):  # noqa: B905 - same length
        _check(job, f"{path}: {key}", array, tuple(shape))
    counts = {len(array) for array in arrays}
    if len(counts) != 1:
        raise BuildError(MODEL, f"{path} has inputs of different lengths; {_advice(job)}")
    return arrays, counts.pop()


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


def _check(job: BuildJob, name: str, array: Any, shape: tuple[int, ...]) -> None:  # noqa: ANN401
    if array.dtype != np.float32 or array.ndim != 4 or array.shape[1:] != shape[1:]:
        raise BuildError(
            MODEL,
            f"{name} is {array.dtype} {array.shape}, expected float32 (n, {str(shape[1:])[1:]}; "
            f"{_advice(job)}",
        )
    if len(array) == 0:
        raise BuildError(MODEL, f"{name} is empty; {_advice(job)}")


def _advice(job: BuildJob) -> str:
    return f"make it with: whisper-hailo calibrate MODEL_DIR --audio DIR --part {job.part}"


logger = logging.getLogger(__name__)

STATE_SUFFIX = ".build.json"
STARTED = ": started"
"""Ends the log line that begins a stage."""

PARSED, OPTIMIZED, COMPILED, HEF, SCRIPT = (
    ".har",
    "_optimized.har",
    "_compiled.har",
    ".hef",
    ".alls",
)


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
        self._own_script = None if job.script is None else _read_script(Path(job.script))
        self._state_path = job.result(STATE_SUFFIX)
        self._runner: Any = None
        self._runner_at = ""
        try:
            Path(job.out).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise disk_error(job.out, error) from error
        self._state = _read_state(self._state_path)

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
        try:
            work()
        except BuildError:
            raise
        except OSError as error:
            raise disk_error(self._job.out, error) from error
        except Exception as error:  # the compiler has dozens of exception classes
            raise BuildError(
                MODEL, f"the Hailo compiler failed to {name} ({one_line(error)}); see the log"
            ) from error
        results = {suffix: file_sha256(self._job.result(suffix)) for suffix in suffixes}
        self._state[name] = {"inputs": key, "results": results}
        self._save_state()
        logger.info("%s: finished", name)
        return results[suffixes[0]]

    def _parse(self) -> None:
        job = self._job
        self._runner = new_runner(self._sdk, arch=job.arch)
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
            try:
                description = network_description(self._opened(PARSED))
            except BuildError:
                raise
            except Exception as error:
                raise BuildError(
                    MODEL, f"{self._job.result(PARSED)} cannot be read ({one_line(error)})"
                ) from error
            network = read_network(description)
            text = model_script(self._job, network, self._n_windows)
            if renumbered(network, self._job):
                logger.warning(
                    "this compiler numbers the layers otherwise than the one of the vendor's "
                    "scripts; they were picked by their place in the network"
                )
        write_whole(self._job.result(SCRIPT), text.encode())
        return file_sha256(self._job.result(SCRIPT))

    def _opened(self, suffix: str) -> Any:  # noqa: ANN401 - the compiler's runner
        """Return the runner that made this stage, or a new one that goes on from its HAR."""
        if self._runner_at != suffix:
            self._runner = new_runner(self._sdk, har=self._job.result(suffix))
            self._runner_at = suffix
        return self._runner

    def _save_har(self, suffix: str) -> None:
        """Save under a name of its own first: a HAR is either whole or not there."""
        path = self._job.result(suffix)
        partial = path.with_name(f"writing-{path.name}")
        try:
            self._runner.save_har(str(partial))
            os.replace(partial, path)
            self._runner_at = suffix
        finally:
            partial.unlink(missing_ok=True)

    def _whole(self, record: dict[str, Any]) -> bool:
        results = record.get("results")
        if not isinstance(results, dict):
            return False
        paths = {self._job.result(suffix): digest for suffix, digest in results.items()}
        return all(path.is_file() and file_sha256(path) == found for path, found in paths.items())

    def _save_state(self) -> None:
        text = json.dumps(self._state, indent=2, sort_keys=True) + "\n"
        write_whole(self._state_path, text.encode())


def _read_script(path: Path) -> str:
    try:
        if path.exists() and not path.is_file():
            raise ValueError("it is no plain file")  # it may have no end
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise BuildError(MODEL, f"cannot read the model script {path} ({error})") from error


def _read_state(path: Path) -> dict[str, Any]:
    """Return what earlier runs did; nothing where the file is missing or broken."""
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that is either whole or as before."""
    partial = path.with_name(f"writing-{path.name}")
    try:
        partial.write_bytes(data)
        os.replace(partial, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise disk_error(path, error) from error
