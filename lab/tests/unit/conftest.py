"""What every unit test leaves as it found it."""

from __future__ import annotations

from tests.unit.conftest import no_waiting_for_the_disk  # noqa: F401 - for these, too
