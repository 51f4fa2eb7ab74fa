"""Settings of all unit tests."""

from __future__ import annotations

from tests.unit.conftest import skip_fsync  # noqa: F401 - for these, too
