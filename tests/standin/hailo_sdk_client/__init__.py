"""A strict stand-in for the vendor's compiler: its contracts, none of its work.

It reads the real graph, numbers the layers as the vendor's scripts do, refuses what the contracts
forbid and says what the real one says. Its HEFs hold the graph between start and end nodes, and
run on the stand-in for the binding. It proves nothing about the real one.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
import zipfile
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
from cut_graph import cut, hef
from hailo_sdk_client._parser import parse, read_script

if os.environ.get("STANDIN_FAIL") == "import:broken":
    raise ImportError("libhailort.so.4 is not here")

__version__ = os.environ.get("STANDIN_VERSION", "3.33.0")
_ARCHES = ("hailo8", "hailo8l", "hailo8r", "hailo10h", "hailo15h", "hailo15m")


class ClientRunnerError(Exception):
    """A contract was broken."""


class ClientRunner:
    """One network on its way through the stages."""

    def __init__(self, hw_arch: str | None = None, har: str | None = None) -> None:
        if (hw_arch is None) == (har is None):
            raise ClientRunnerError("give hw_arch for a new network, or har")
        if har is not None:
            with zipfile.ZipFile(har) as archive:
                self._state: dict[str, Any] = json.loads(archive.read("state.json"))
                self._graph = archive.read("graph.onnx")
            return
        if hw_arch not in _ARCHES:
            raise ClientRunnerError(f"unsupported hw_arch {hw_arch}")
        self._state = {"stage": "new", "arch": hw_arch, "commands": []}

    def translate_onnx_model(
        self,
        model: str,
        net_name: str,
        *,
        start_node_names: list[str],
        end_node_names: list[str],
    ) -> tuple[str, dict[str, Any]]:
        self._expect("new")
        _maybe_fail("parse")
        if not net_name.isidentifier():
            raise ClientRunnerError(f"net name {net_name!r}")
        self._state["hn"] = parse(
            Path(model), net_name, start_node_names, end_node_names
        )
        network = cut(Path(model), net_name, start_node_names, end_node_names)
        _, self._state["streams"], self._graph = network
        self._state["stage"] = "parsed"
        _say(f"[info] Translation completed on ONNX model {net_name}")
        return json.dumps(self._state["hn"]), {}

    def get_hn_dict(self) -> dict[str, Any]:
        if "hn" not in self._state:
            raise ClientRunnerError("no network was parsed")
        return dict(self._state["hn"])

    def load_model_script(self, model_script: str) -> None:
        self._expect("parsed")
        self._state["commands"] = read_script(Path(model_script), list(self._names()))

    def optimize(self, calib_data: Any, work_dir: str) -> None:
        self._expect("parsed")
        if not self._state["commands"]:
            raise ClientRunnerError("no model script was loaded before optimize")
        if not Path(work_dir).is_dir():
            raise ClientRunnerError(f"no work_dir {work_dir}")
        n_windows = self._check_calibration(calib_data)
        for command, arguments in self._state["commands"]:
            for key in ("calibset_size", "dataset_size"):
                if int(arguments.get(key, 0)) > n_windows:
                    raise ClientRunnerError(
                        f"{command}: {key} is over the {n_windows} entries"
                    )
        _say("[info] Starting Quantization-Aware Fine-Tuning")
        _maybe_fail("optimize")
        outputs = [name for name in self._layers() if fnmatch(name, "*/output_layer*")]
        _say("[info] Output layers signal-to-noise ratio (SNR): higher is better")
        for i, name in enumerate(outputs):
            _say(f"[info] \t{name} SNR:\t{21.5 + i} dB")
        self._state["stage"] = "optimized"

    def compile(self) -> bytes:
        self._expect("optimized")
        _maybe_fail("compile")
        _say("[info] Applying selected partition to 9 contexts...")
        self._state["stage"] = "compiled"
        name = self._state["hn"]["name"]
        network = (name, self._state["streams"], self._graph)
        all_that_went_in = json.dumps(self._state, sort_keys=True).encode()
        weights = hashlib.sha256(all_that_went_in).digest()
        return hef(self._state["arch"], [network], weights=weights)

    def save_har(self, har_path: str) -> None:
        if not har_path.endswith(".har"):
            raise ClientRunnerError(f"{har_path} does not end in .har")
        stage = self._state["stage"]
        if stage == "new":
            raise ClientRunnerError("nothing to save")
        _maybe_fail(f"save-{stage}", Path(har_path))
        with zipfile.ZipFile(har_path, "w") as archive:
            info = zipfile.ZipInfo("state.json")
            # The order of outputs means something.
            archive.writestr(info, json.dumps(self._state))
            archive.writestr(zipfile.ZipInfo("graph.onnx"), self._graph)

    def _expect(self, stage: str) -> None:
        if self._state["stage"] != stage:
            raise ClientRunnerError(
                f"network is {self._state['stage']}, expected {stage}"
            )

    def _layers(self) -> dict[str, Any]:
        return dict(self._state["hn"]["layers"])

    def _names(self) -> list[str]:
        return [name.split("/", 1)[1] for name in self._layers()]

    def _check_calibration(self, data: Any) -> int:
        inputs = {
            name: tuple(layer["output_shapes"][0][1:])
            for name, layer in self._layers().items()
            if layer["type"] == "input_layer"
        }
        given = (
            data if isinstance(data, dict) else dict.fromkeys(list(inputs)[:1], data)
        )
        if set(given) != set(inputs):
            raise ClientRunnerError(
                f"calibration for {set(given)}, inputs are {set(inputs)}"
            )
        for name, array in given.items():
            if not isinstance(array, np.ndarray) or array.dtype != np.float32:
                raise ClientRunnerError(f"{name} is no float32 array")
            if array.shape[1:] != inputs[name]:
                raise ClientRunnerError(
                    f"{name} is {array.shape}, expected {inputs[name]}"
                )
        return min(len(array) for array in given.values())


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _maybe_fail(stage: str, path: Path | None = None) -> None:
    wanted, _, how = os.environ.get("STANDIN_FAIL", "").partition(":")
    if wanted != stage:
        return
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "hang":
        _say(f"[info] {stage} hangs")
        time.sleep(60)
    if how == "disk":
        if path is not None:
            path.write_bytes(b"half")
        raise OSError(28, "No space left on device")
    raise ClientRunnerError("Agent infeasible\nmapping failed")
