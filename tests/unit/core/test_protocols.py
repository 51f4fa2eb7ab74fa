"""Types that decoders take and return."""

from __future__ import annotations

import pytest

from whisper_hailo.core.protocols import Closing, Limits, Padding


def test_padding_n_added_reaches_target_never_negative() -> None:
    assert [Padding(1500).n_added(n) for n in (0, 500, 1499, 1500, 1501)] == [
        1500, 1000, 1, 0, 0,
    ]  # fmt: skip
    assert Padding(None).n_added(500) == 0
    assert Limits() == Limits(None, True, True)


class Door(Closing):
    """Counts."""

    n_closed = 0

    def close(self) -> None:
        self.n_closed += 1


def test_closing_block_closes_after_error() -> None:
    door = Door()
    with door as same:
        assert same is door
        assert door.n_closed == 0
    with pytest.raises(KeyError), door:
        raise KeyError
    assert door.n_closed == 2
