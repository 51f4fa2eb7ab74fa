"""A HEF at the edges of its format: sizes, orders, places, checksums."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from xxhash import xxh3_64_intdigest

from tests.fakes.hef_files import DECODER, ENCODER, changed
from tests.standin.hef_file import MAGIC, Net, Wish, classes, hef_bytes
from whisper_hailo.backends.hailo.hef_file import (
    HefFile,
    check_sum,
    read_header,
    read_hef,
)
from whisper_hailo.core.errors import HefError

TURNED = [*list(DECODER.outputs)[1:], *list(DECODER.outputs)[:1]]
"""Neither their order nor that of the file."""


def read(
    folder: Path, wish: Wish, change: Callable[[Any], object] = lambda _: None
) -> HefFile:
    return read_hef(changed(folder / "x.hef", wish, change))


def third(
    proto: bytes, rest: bytes, *, hashes: tuple[int, int], more: int = 0
) -> memoryview:
    """A file of version 3, whose rest is weights and `more` bytes of something else."""
    numbers = (hashes[0], len(rest) - more, 16, more, hashes[1], 0)
    common = struct.pack(">III", MAGIC, 3, len(proto))
    return memoryview(common + struct.pack(">QQIQQQ", *numbers) + proto + rest)


def test_read_header_counts_bytes_behind_the_description() -> None:
    proto = bytes(300)
    rest = bytes(range(50))
    whole = xxh3_64_intdigest(proto + rest)
    data = third(proto, rest, hashes=(whole, 0), more=20)
    header = read_header(data)
    assert (header.start, header.end, header.checked_end) == (56, 356, 406)
    assert header.checksum == f"{whole:016x}"
    assert check_sum(data, header)
    for wrong in (data[:-1], memoryview(bytes(data) + b"x")):
        with pytest.raises(HefError, match=rf"\b{len(wrong)} .*\b406$"):
            read_header(wrong)


def test_check_sum_falls_back_to_the_descriptions() -> None:
    """Bytes behind the description may change then."""
    proto = bytes(range(250)) * 2
    rest = bytes(40)
    own = xxh3_64_intdigest(proto)
    data = third(proto, rest, hashes=(0, own))
    header = read_header(data)
    assert (header.checksum, header.checked_end) == (f"{own:016x}", 556)
    assert check_sum(data, header)
    for at, good in ((56, False), (555, False), (556, True), (595, True)):
        spoilt = bytearray(data)
        spoilt[at] ^= 1
        assert check_sum(memoryview(spoilt), header) is good


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_check_sum_covers_all_behind_the_header(version: int) -> None:
    """The first byte, and the last."""
    whole = hef_bytes(Wish([ENCODER], version=version))
    header = read_header(memoryview(whole))
    assert check_sum(memoryview(whole), header)
    for at in (header.start, len(whole) - 1):
        spoilt = bytearray(whole)
        spoilt[at] ^= 1
        assert not check_sum(memoryview(spoilt), header)


@pytest.mark.parametrize(
    ("content", "data"),
    [
        (bytes(11), r"\b11 "),
        (
            bytes(12),
            "0x00000000.*0x01484546",
        ),
        (struct.pack(">III", MAGIC, 4, 1), r"\b4, .*\b0 to 3$"),
        (
            struct.pack(">III", MAGIC, 0, 1) + bytes(19),
            r"\b31 ",
        ),
        (
            struct.pack(">III", MAGIC, 0, 1) + bytes(20),
            r"\b32 .*\b33$",
        ),
        (struct.pack(">III", MAGIC, 0, 0) + bytes(20), "network"),
    ],
)
def test_read_header_of_invalid_header_is_refused(content: bytes, data: str) -> None:
    with pytest.raises(HefError, match=data):
        read_header(memoryview(content))


def test_read_hef_limits_axes(tmp_path: Path) -> None:
    for axis in ("height", "width", "features"):
        for size, good in (
            (0, False),
            (1, True),
            (1 << 24, True),
            ((1 << 24) + 1, False),
        ):

            def resize(hef: Any, axis: str = axis, size: int = size) -> None:
                base = hef.network_groups[0].contexts[0].metadata.edges[0].layer.base
                setattr(base, axis, size)

            wish = Wish([DECODER], arch="hailo8")
            if good:
                (group,) = read(tmp_path, wish, resize).groups
                assert size in next(iter(group.inputs.values()))
            else:
                with pytest.raises(HefError, match=rf"input_layer2 .*\b{size}\b"):
                    read(tmp_path, wish, resize)


@pytest.mark.parametrize("gone", ["name", "base"])
def test_read_hef_of_stream_without_name_or_shape_fails(
    tmp_path: Path, gone: str
) -> None:
    def clear(hef: Any) -> None:
        hef.network_groups[0].contexts[0].metadata.edges[0].layer.ClearField(gone)

    with pytest.raises(HefError, match="input or output"):
        read(tmp_path, Wish([DECODER], arch="hailo8"), clear)


def test_read_hef_ignores_edges_without_layers(tmp_path: Path) -> None:
    """Empty parts of a shared stream and empty contexts are ignored, too."""

    def add(hef: Any) -> None:
        (group,) = hef.network_groups
        group.contexts[0].metadata.edges.add(direction=1)
        group.contexts[0].metadata.edges[-2].mux.predecessors.add()
        group.contexts.add(index=1)

    (group,) = read(tmp_path, Wish([DECODER], arch="hailo8", mux=True), add).groups
    assert {*group.outputs} == set(DECODER.outputs)
    assert group.contexts == 2


@pytest.mark.parametrize(("depth", "good"), [(8, True), (9, False)])
def test_read_hef_limits_the_depth_of_muxes(
    tmp_path: Path, depth: int, good: bool
) -> None:
    def nest(hef: Any) -> None:
        (group,) = hef.network_groups
        edge = group.contexts[0].metadata.edges[-1]
        layer = classes()["Layer"]()
        layer.CopyFrom(edge.layer)
        mux = edge.mux
        edge.ClearField("layer")
        for _ in range(depth):
            mux = mux.predecessors.add().mux
        mux.predecessors.add().layer.CopyFrom(layer)

    wish = Wish([DECODER], arch="hailo8")
    if good:
        (group,) = read(tmp_path, wish, nest).groups
        assert {*group.outputs} == set(DECODER.outputs)
    else:
        with pytest.raises(HefError, match="nested"):
            read(tmp_path, wish, nest)


@pytest.mark.parametrize(
    ("layer_says", "network_says", "format_is", "shape"),
    [
        (False, False, 0, (2, 3, 5)), (True, False, 0, (3, 2, 5)), (False, True, 0, (3, 2, 5)),
        (True, True, 0, (3, 2, 5)), (True, False, 2, (2, 3, 5)), (False, True, 2, (2, 3, 5)),
        (True, True, 1, (3, 2, 5)), (True, False, 3, (3, 2, 5)),
    ],
)  # fmt: skip
def test_read_hef_swaps_axes_of_transposed_streams(
    *,
    tmp_path: Path,
    layer_says: bool,
    network_says: bool,
    format_is: int,
    shape: tuple[int, int, int],
) -> None:
    def mark(hef: Any) -> None:
        (group,) = hef.network_groups
        group.metadata.transposed = network_says
        layer = group.contexts[0].metadata.edges[0].layer
        layer.transposed = layer_says
        layer.base.format = format_is

    net = Net("n", {"n/i": (2, 3, 5)}, {"n/o": (1, 4, 4)})
    (found,) = (
        read(tmp_path, Wish([net], arch="hailo8"), mark).groups[0].inputs.values()
    )
    assert found == shape


@pytest.mark.parametrize("arch", ["hailo8", "hailo8l"])
def test_read_hef_takes_the_groups_order_with_operators(
    tmp_path: Path, arch: str
) -> None:
    """That of a placement within an operator is passed over, as HailoRT does."""

    def mislead(hef: Any) -> None:
        core = hef.network_groups[0].ops[0].core
        for part in [core, *(placed.inner for placed in core.placed)]:
            part.sorted_outputs_order[:] = TURNED

    (group,) = read(tmp_path, Wish([DECODER], arch=arch, ops=True), mislead).groups
    assert [*group.outputs] == list(DECODER.outputs)


@pytest.mark.parametrize("where", ["placement", "network", "both"])
def test_read_hef_prefers_a_placements_order(tmp_path: Path, where: str) -> None:
    def move(hef: Any) -> None:
        (group,) = hef.network_groups
        for placed in group.placed:
            placed.inner.sorted_outputs_order[:] = [] if where == "network" else TURNED
        if where != "placement":
            group.sorted_outputs_order[:] = (
                TURNED if where == "network" else DECODER.outputs
            )

    (group,) = read(tmp_path, Wish([DECODER], arch="hailo8l"), move).groups
    assert [*group.outputs] == TURNED


def test_read_hef_falls_back_to_the_last_contexts_order(tmp_path: Path) -> None:
    """Outputs that no order names come last, as they lie in the file."""
    net = Net("d", DECODER.inputs, DECODER.outputs, contexts=3)

    def move(hef: Any) -> None:
        (group,) = hef.network_groups
        group.ClearField("sorted_outputs_order")
        for context, order in zip(
            group.contexts, ([], list(net.outputs), TURNED[:2]), strict=True
        ):
            context.metadata.sorted_outputs_order[:] = order

    (group,) = read(tmp_path, Wish([net], arch="hailo8"), move).groups
    found = [*group.outputs]
    in_file = list(net.outputs)[::-1]
    assert found == [*TURNED[:2], *(name for name in in_file if name not in TURNED[:2])]

    def clear(hef: Any) -> None:
        hef.network_groups[0].ClearField("sorted_outputs_order")
        hef.network_groups[0].contexts[-1].metadata.edges[0].switch.connection = 1

    (group,) = read(tmp_path, Wish([net], arch="hailo8"), clear).groups
    assert [*group.outputs] == in_file


@pytest.mark.parametrize("n_kept", [0, 1])
def test_read_hef_counts_contexts_of_largest_placement(
    tmp_path: Path, n_kept: int
) -> None:
    def cut(hef: Any) -> None:
        first, second = hef.network_groups[0].placed
        del first.inner.contexts[n_kept:]
        assert len(second.inner.contexts) == 3

    (group,) = read(tmp_path, Wish([ENCODER], arch="hailo8l"), cut).groups
    assert group.contexts == 3
    assert [*group.outputs] == list(ENCODER.outputs)


@pytest.mark.parametrize(("n_networks", "good"), [(64, True), (65, False)])
def test_read_hef_limits_networks_to_64(
    tmp_path: Path, n_networks: int, good: bool
) -> None:
    nets = [
        Net(f"n{i}", {f"{i}": (1, 2, 3)}, {f"{i}o": (1, 1, 1)})
        for i in range(n_networks)
    ]
    wish = Wish(nets, arch="hailo8")
    if good:
        assert [group.name for group in read(tmp_path, wish).groups] == [
            net.name for net in nets
        ]
    else:
        with pytest.raises(HefError, match=r"\b65 .*\b1 to 64;"):
            read(tmp_path, wish)
