"""HEF files by an independent writer, whole and damaged, and their streams."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.hef_files import (
    DECODER,
    ENCODER,
    changed,
    description,
    write,
)
from tests.standin.hef_file import MAGIC, Net, Wish, classes, hef_bytes, with_header
from whisper_hailo.backends.hailo.hef_contract import recognise
from whisper_hailo.backends.hailo.hef_file import read_hef
from whisper_hailo.convert.inspect import describe_hef
from whisper_hailo.core.errors import HefError


@pytest.mark.parametrize("version", [0, 1, 2, 3])
@pytest.mark.parametrize("arch", ["hailo8", "hailo8l", "hailo15h"])
@pytest.mark.parametrize("ops", [False, True])
def test_read_hef_of_every_version_and_form(
    tmp_path: Path, version: int, arch: str, ops: bool
) -> None:
    wish = Wish([ENCODER, DECODER], arch=arch, version=version, ops=ops)
    hef = read_hef(write(tmp_path / "x.hef", wish))
    assert (hef.arch, hef.compiler_version) == (arch, "3.33.0")
    encoder, decoder = hef.groups
    assert (encoder.name, encoder.contexts) == (ENCODER.name, 3)
    assert encoder.inputs == ENCODER.inputs
    assert decoder.inputs == DECODER.inputs
    assert [*decoder.outputs] == list(DECODER.outputs)


def test_hef_bytes_of_8l_names_placements_only() -> None:
    """Like real files, none of which may be kept here."""
    (group,) = description(hef_bytes(Wish([DECODER]))).network_groups
    assert [field.name for field, _ in group.ListFields()] == ["placed"]
    assert [placed.inner.metadata.name for placed in group.placed] == [DECODER.name] * 2
    assert [placed.layout.clusters for placed in group.placed] == [51, 204]


@pytest.mark.parametrize("ops", [False, True])
@pytest.mark.parametrize("arch", ["hailo8", "hailo8l"])
def test_read_hef_prefers_the_order_of_fused_layers(
    tmp_path: Path, arch: str, ops: bool
) -> None:
    """HailoRT looks for them in the network as a whole, never in a placement."""
    reordered_names = [*list(DECODER.outputs)[1:], *list(DECODER.outputs)[:1]]

    def fuse(hef: Any) -> None:
        (group,) = hef.network_groups
        fused = (group.ops[0].core if ops else group).fused
        fused.has = True
        fused.names[:] = reordered_names

    path = changed(tmp_path / "x.hef", Wish([DECODER], arch=arch, ops=ops), fuse)
    assert [*read_hef(path).groups[0].outputs] == reordered_names


@pytest.mark.parametrize("mark", ["layer", "network"])
def test_read_hef_gives_transposed_shapes_to_the_host(
    tmp_path: Path, mark: str
) -> None:
    wish = Wish([ENCODER], transposed=mark)
    (group,) = read_hef(write(tmp_path / "x.hef", wish)).groups
    assert [*group.inputs.values(), *group.outputs.values()] == [
        (1, 1000, 80),
        (1, 500, 384),
    ]

    def flatten(hef: Any) -> None:
        for placed in hef.network_groups[0].placed:
            placed.inner.contexts[0].metadata.edges[0].layer.base.format = 2

    flat = read_hef(changed(tmp_path / "flat.hef", wish, flatten)).groups[0]
    assert [*flat.inputs.values()] == [(1000, 1, 80)], "left as it is"


@pytest.mark.parametrize(
    ("codes", "arch", "runs_on"),
    [
        ((0, 1, 2, 101, 102), "hailo8", ["hailo8"]),
        ((3,), "hailo8l", ["hailo8", "hailo8l"]),
        ((4,), "hailo15m", ["hailo10h", "hailo15h", "hailo15m"]),
        ((5,), "hailo10h", ["hailo10h", "hailo15h"]),
        ((100,), "hailo8_a0", ["hailo8_a0"]),
        ((103, 104, 105), "hailo15h", ["hailo10h", "hailo15h"]),
        ((6, 106), "hailo15l", ["hailo15l"]),
        ((107,), "unknown (107)", []),
    ],
)
def test_describe_hef_names_chips_by_number(
    tmp_path: Path, codes: tuple[int, ...], arch: str, runs_on: list[str]
) -> None:
    for code in codes:

        def mark(hef: Any, code: int = code) -> None:
            hef.header.hw_arch = code

        facts = describe_hef(
            changed(tmp_path / "x.hef", Wish([ENCODER], arch="hailo8"), mark)
        )
        assert (facts["compiled_for"], facts["runs_on"]) == (arch, runs_on)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("3.31.0", "3.31.0"),
        (
            "sdk-version: 5.3.0, git-branch: stability-v5.3.0, git-commit: 5b0ed83b",
            "5.3.0",
        ),
        ("3.33.0.dev4", "3.33.0.dev4"),
        ("unreleased", "unreleased"),
    ],
)
def test_read_hef_reads_compiler_versions(
    tmp_path: Path, text: str, version: str
) -> None:
    path = write(tmp_path / "x.hef", Wish([ENCODER], compiler=text))
    assert read_hef(path).compiler_version == version


def test_read_hef_takes_boundary_edges_only(tmp_path: Path) -> None:
    """An edge's switch may name the boundary, or another context, whose edges are no streams."""

    def connected(hef: Any, connection: int) -> None:
        for group in hef.network_groups:
            for part in [group, *(placed.inner for placed in group.placed)]:
                for context in part.contexts:
                    for edge in context.metadata.edges:
                        if edge.layer.name in {*ENCODER.inputs, *ENCODER.outputs}:
                            edge.switch.connection = connection

    wish = Wish([ENCODER], version=0)
    path = changed(tmp_path / "x.hef", wish, lambda hef: connected(hef, 0))
    (group,) = read_hef(path).groups
    assert {*group.inputs} == set(ENCODER.inputs)
    path = changed(tmp_path / "y.hef", wish, lambda hef: connected(hef, 1))
    with pytest.raises(HefError, match=r"y\.hef.*network"):
        read_hef(path)


def test_read_hef_reads_muxed_streams(tmp_path: Path) -> None:
    hef = read_hef(write(tmp_path / "x.hef", Wish([DECODER], mux=True)))
    assert [*hef.groups[0].outputs] == list(DECODER.outputs)


def test_read_hef_skips_empty_placements(tmp_path: Path) -> None:
    """The other placements have all facts."""

    def clear(hef: Any) -> None:
        (group,) = hef.network_groups
        group.placed[0].ClearField("inner")

    path = changed(tmp_path / "x.hef", Wish([DECODER], arch="hailo8l"), clear)
    (group,) = read_hef(path).groups
    assert group.inputs == DECODER.inputs


def test_describe_hef_is_json(tmp_path: Path) -> None:
    facts = describe_hef(write(tmp_path / "x.hef", Wish([ENCODER, DECODER])))
    assert json.loads(json.dumps(facts)) == facts
    assert facts["runs_on"] == ["hailo8", "hailo8l"]
    assert facts["networks"][ENCODER.name]["window_s"] == 10.0
    assert "host" in facts["networks"][DECODER.name]["contract"]


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_read_hef_of_truncated_file_fails_in_one_line(
    tmp_path: Path, version: int
) -> None:
    whole = hef_bytes(Wish([ENCODER], version=version))
    path = tmp_path / "cut.hef"
    cuts = [*range(1, 64), *range(64, len(whole), 997)]
    for length in cuts:
        path.write_bytes(whole[:length])
        with pytest.raises(HefError, match=r"cut\.hef ") as caught:
            read_hef(path)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_read_hef_of_changed_description_is_refused(
    tmp_path: Path, version: int
) -> None:
    whole = hef_bytes(Wish([ENCODER], version=version, weights=b"\x01" * 64))
    rng = random.Random(version)
    path = tmp_path / "changed.hef"
    for _ in range(150):
        at = rng.randrange(12, len(whole) - 64)
        changed = bytearray(whole)
        changed[at] ^= 1 << rng.randrange(8)
        path.write_bytes(changed)
        try:
            read_hef(path)
        except HefError:
            continue
        assert at < 56, "only what a header reserves is free to change"


def _nested(depth: int) -> bytes:
    """A description whose streams are muxes of muxes."""
    kinds = classes()
    hef = kinds["Hef"]()
    hef.header.hw_arch = 3
    group = hef.network_groups.add()
    group.metadata.name = "deep"
    edge = group.ops.add().core.contexts.add().metadata.edges.add()
    mux = edge.mux
    for _ in range(depth):
        mux.name = "m"
        mux = mux.predecessors.add().mux
    return bytes(hef.SerializeToString())


def _renamed(name: bytes) -> bytes:
    """A description whose network has these bytes, as many as its name has, as its name."""
    whole = hef_bytes(Wish([Net("abcd", {"i": (1, 8, 8)}, {"o": (1, 4, 8)})]))
    return whole[32:].replace(b"abcd", name)


@pytest.mark.parametrize(
    ("proto", "expected"),
    [
        (b"\x0a\x02\x08\x03", r"\b0 networks\b.*\b1 to 64;"),
        (b"\x12\x00", "chip"),
        (b"\x0a\x02\x08\x03\x12\x02\x42\x00", "context"),
        (b"\x0a\x7f", "beyond"),
        (b"\x08" + b"\xff" * 11, "never ends"),
        (b"\x08\xff", "middle of a number"),
        (b"\x0b", r"kind 3\b"),
        (b"\x02\x00", "without a number"),
        (b"\x08\x01", "number where"),
        (_nested(40), "nested"),
        (b"\x0a\x02\x08\x03" + b"\x12\x00" * 65, r"\b65 networks\b.*\b1 to 64;"),
        (_renamed(b"\xff\xfeab"), "not text"),
        (_renamed(b"ab\nc"), "unprintable"),
    ],
)
def test_read_hef_of_hostile_description_is_refused(
    tmp_path: Path, proto: bytes, expected: str
) -> None:
    path = tmp_path / "hostile.hef"
    path.write_bytes(with_header(proto, 0, b""))
    with pytest.raises(HefError, match=expected):
        read_hef(path)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "empty"),
        (b"PK\x03\x04" + bytes(40), "0x504b0304"),
        (
            MAGIC.to_bytes(4, "big") + bytes([0, 0, 0, 9]) + bytes(40),
            r"version 9, .*\b0 to 3;",
        ),
    ],
)
def test_read_hef_of_other_files_is_refused(
    tmp_path: Path, content: bytes, expected: str
) -> None:
    path = tmp_path / "other.hef"
    path.write_bytes(content)
    with pytest.raises(HefError, match=expected):
        read_hef(path)
    with pytest.raises(HefError, match=r"missing\.hef "):
        read_hef(tmp_path / "missing.hef")
    with pytest.raises(HefError, match=f"^{tmp_path} "):
        read_hef(tmp_path)


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
