"""Turns telemetry of libraries off; it has to run before they are imported."""

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
"""Environment variables that turn telemetry off. ONNX Runtime (1.29 and later) stores a device id
and a list of events at import, and sends them to its maker. The hub's client and its `hf_xet` tell
the hub about each fetch. Ray tells its maker about each cluster."""


def keep_private() -> None:
    """Turn telemetry off for this process and its children, unless the user has set it.

    In a program that imported ONNX Runtime first, what it gathered at its import will still be
    sent.
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
