"""What closes at the end of a block."""

from __future__ import annotations

import pytest

from whisper_hailo.core.protocols import Closing


class Door(Closing):
    """Counts."""

    n_closed = 0

    def close(self) -> None:
        self.n_closed += 1


def test_a_block_closes_what_it_opened_however_it_ends() -> None:
    door = Door()
    with door as same:
        assert same is door
        assert door.n_closed == 0
    with pytest.raises(KeyError), door:
        raise KeyError
    assert door.n_closed == 2
    with pytest.raises(NotImplementedError):
        Closing().close()
