"""What every unit test leaves as it found it."""

from __future__ import annotations

from tests.unit.conftest import skip_fsync  # noqa: F401 - for these, too
