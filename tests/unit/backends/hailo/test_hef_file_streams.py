"""Streams of a HEF as the host sees them: their layout, order and shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.fakes.hef_files import DECODER, ENCODER, changed
from tests.standin.hef_file import Net, Wish, hef_bytes
from whisper_hailo.backends.hailo.hef_contract import recognise
from whisper_hailo.backends.hailo.hef_file import read_hef


def test_read_hef_orders_outputs_by_the_last_context(
    tmp_path: Path,
) -> None:
    """The file's own order is another."""

    def move(hef: Any) -> None:
        (group,) = hef.network_groups
        (context,) = group.contexts
        context.metadata.sorted_outputs_order[:] = group.sorted_outputs_order
        group.ClearField("sorted_outputs_order")

    path = changed(tmp_path / "x.hef", Wish([DECODER], arch="hailo8"), move)
    assert [*read_hef(path).groups[0].outputs] == list(DECODER.outputs)


def test_recognise_of_input_with_rows_is_no_encoder(tmp_path: Path) -> None:
    net = Net("x", {"x/input_layer1": (2, 1000, 80)}, ENCODER.outputs)
    path = tmp_path / "x.hef"
    path.write_bytes(hef_bytes(Wish([net])))
    assert recognise(read_hef(path).groups[0], "hailo8l") is None
