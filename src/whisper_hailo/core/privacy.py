"""Keeps libraries from reporting on their users; it has to run before they are imported."""

from __future__ import annotations

import os
import sys
from typing import Final

RUNTIME_SWITCH: Final = "ORT_DISABLE_TELEMETRY"
SWITCHES: Final = {
    RUNTIME_SWITCH: "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}
"""Environment variables that turn reporting off.

ONNX Runtime (1.29 and later) keeps an id of the device and a list of events on disk from its import
on, and sends them to its maker. The hub's client and its `hf_xet` tell the hub about each fetch.
Ray tells its maker about each cluster.
"""


def keep_private() -> None:
    """Turn reporting off for this process and those that it starts.

    What the user has set stays. In a program that imported ONNX Runtime first nothing more is
    gathered, but what it gathered at its import will be sent: that cannot be taken back.
    """
    chosen = bool(os.environ.get(RUNTIME_SWITCH))
    for switch, off in SWITCHES.items():
        if not os.environ.get(switch):
            os.environ[switch] = off
    disable = getattr(sys.modules.get("onnxruntime"), "disable_telemetry_events", None)
    if disable is not None and not chosen:
        disable()
        import logging  # here, since every start of the program comes by

        logging.getLogger(__name__).warning(
            "onnxruntime was imported before whisper_hailo and reports its start to its maker; "
            "import whisper_hailo first, or set %s=1",
            RUNTIME_SWITCH,
        )
