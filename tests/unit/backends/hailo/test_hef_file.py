"""HEF files by an independent writer, read by the product."""

from __future__ import annotations

import json
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
from tests.standin.hef_file import Wish, hef_bytes
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
