"""The real command, as in the end-to-end tests of the product."""

from __future__ import annotations

from tests.e2e.conftest import (  # noqa: F401
    environment,
    micro_hailo,
    micro_model,
    whisper_hailo,
)
