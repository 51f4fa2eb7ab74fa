"""Reads a calibration set and holds it against the network's inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .job import MODEL, BuildError, BuildJob, one_line


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
