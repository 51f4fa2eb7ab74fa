"""What decoders are told and say of themselves."""

from __future__ import annotations

from whisper_hailo.core.protocols import Limits, Padding


def test_padding_adds_up_to_its_target_and_cuts_nothing() -> None:
    assert [Padding(1500).n_added(n) for n in (0, 500, 1499, 1500, 1501)] == [
        1500, 1000, 1, 0, 0,
    ]  # fmt: skip
    assert Padding(None).n_added(500) == 0
    assert Limits() == Limits(None, True, True)
