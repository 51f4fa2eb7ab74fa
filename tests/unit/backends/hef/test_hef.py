"""HEF files by an independent writer, read by the product; and what strangers may hand it."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.standin.hef_file import MAGIC, Net, Wish, classes, hef_bytes, with_header
from whisper_hailo.backends.hef.contract import (
    CHIP,
    HOST,
    DecoderShape,
    EncoderShape,
    find_part,
    recognise,
)
from whisper_hailo.backends.hef.describe import describe_hef
from whisper_hailo.backends.hef.read import read_hef
from whisper_hailo.backends.hef.xxh3 import xxh3_64
from whisper_hailo.backends.wire import Budget, Message, WireError
from whisper_hailo.core.errors import HefError

ENCODER = Net(
    "tiny-whisper-encoder-10s",
    {"tiny-whisper-encoder-10s/input_layer1": (1, 1000, 80)},
    {"tiny-whisper-encoder-10s/layer_normalization9": (1, 500, 384)},
    contexts=3,
)
DECODER = Net(
    "tiny-whisper-decoder",
    {
        "tiny-whisper-decoder/input_layer2": (32, 1, 384),
        "tiny-whisper-decoder/input_layer1": (1, 500, 384),
    },
    {f"tiny-whisper-decoder/conv{n}": (1, 32, 12966 + (n == 4)) for n in (3, 1, 2, 4)},
)


def _write(path: Path, wish: Wish) -> Path:
    path.write_bytes(hef_bytes(wish))
    return path


@pytest.mark.parametrize("version", [0, 1, 2, 3])
@pytest.mark.parametrize("arch", ["hailo8", "hailo8l", "hailo15h"])
@pytest.mark.parametrize("ops", [False, True])
def test_every_version_and_form(tmp_path: Path, version: int, arch: str, ops: bool) -> None:
    wish = Wish([ENCODER, DECODER], arch=arch, version=version, ops=ops)
    hef = read_hef(_write(tmp_path / "x.hef", wish))
    assert (hef.version, hef.arch, hef.compiler_version) == (version, arch, "3.33.0")
    encoder, decoder = hef.groups
    assert (encoder.name, encoder.contexts) == (ENCODER.name, 3)
    assert {s.name: s.shape for s in encoder.inputs} == ENCODER.inputs
    assert {s.name: s.shape for s in decoder.inputs} == DECODER.inputs
    assert [s.name for s in decoder.outputs] == list(DECODER.outputs)
    assert (decoder.outputs[0].type, decoder.outputs[0].scale) == ("uint16", 0.5)


def changed(path: Path, wish: Wish, change: Callable[[Any], object]) -> Path:
    """A file whose description was changed before it was signed."""
    hef = _description(hef_bytes(wish))
    change(hef)
    path.write_bytes(with_header(hef.SerializeToString(), wish.version, wish.weights))
    return path


def _description(data: bytes) -> Any:
    hef = classes()["Hef"]()
    size = struct.unpack_from(">III", data)[2]
    hef.ParseFromString(data[32 : 32 + size])  # of version 0
    return hef


def test_files_for_an_8l_have_names_and_order_only_within_placements() -> None:
    """As real ones do, of which none is ours to keep."""
    (group,) = _description(hef_bytes(Wish([DECODER]))).network_groups
    assert [field.name for field, _ in group.ListFields()] == ["placed"]
    assert [place.inner.metadata.name for place in group.placed] == [DECODER.name] * 2
    assert [place.layout.clusters for place in group.placed] == [51, 204]


@pytest.mark.parametrize("ops", [False, True])
@pytest.mark.parametrize("arch", ["hailo8", "hailo8l"])
def test_the_order_of_fused_layers_counts_if_there_are_any(
    tmp_path: Path, arch: str, ops: bool
) -> None:
    """HailoRT looks for them in the network as a whole, never in a placement."""
    turned = [*list(DECODER.outputs)[1:], *list(DECODER.outputs)[:1]]

    def fuse(hef: Any) -> None:
        (group,) = hef.network_groups
        fused = (group.ops[0].core if ops else group).fused
        fused.has = True
        fused.names[:] = turned

    path = changed(tmp_path / "x.hef", Wish([DECODER], arch=arch, ops=ops), fuse)
    assert [s.name for s in read_hef(path).groups[0].outputs] == turned


@pytest.mark.parametrize("mark", ["layer", "network"])
def test_transposed_shapes_are_as_the_host_sees_them(tmp_path: Path, mark: str) -> None:
    wish = Wish([ENCODER], transposed=mark)
    (group,) = read_hef(_write(tmp_path / "x.hef", wish)).groups
    assert [s.shape for s in (*group.inputs, *group.outputs)] == [(1, 1000, 80), (1, 500, 384)]

    def flatten(hef: Any) -> None:
        for place in hef.network_groups[0].placed:
            place.inner.contexts[0].metadata.edges[0].layer.base.format = 2

    flat = read_hef(changed(tmp_path / "flat.hef", wish, flatten)).groups[0]
    assert (flat.inputs[0].order, flat.inputs[0].shape) == ("NC", (1000, 1, 80)), "left as it is"


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
def test_numbers_of_chips(
    tmp_path: Path, codes: tuple[int, ...], arch: str, runs_on: list[str]
) -> None:
    for code in codes:

        def mark(hef: Any, code: int = code) -> None:
            hef.header.hw_arch = code

        facts = describe_hef(changed(tmp_path / "x.hef", Wish([ENCODER], arch="hailo8"), mark))
        assert (facts["compiled_for"], facts["runs_on"]) == (arch, runs_on)


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("3.31.0", "3.31.0"),
        ("sdk-version: 5.3.0, git-branch: stability-v5.3.0, git-commit: 5b0ed83b", "5.3.0"),
        ("3.33.0.dev4", "3.33.0.dev4"),
        ("unreleased", "unreleased"),
    ],
)
def test_versions_of_compilers(tmp_path: Path, said: str, version: str) -> None:
    path = _write(tmp_path / "x.hef", Wish([ENCODER], compiler=said))
    assert read_hef(path).compiler_version == version


def test_an_edge_says_itself_whether_it_leads_to_the_host(tmp_path: Path) -> None:
    """Its switch may name the boundary, or another context, whose edges are no streams."""

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
    assert {stream.name for stream in group.inputs} == set(ENCODER.inputs)
    path = changed(tmp_path / "y.hef", wish, lambda hef: connected(hef, 1))
    with pytest.raises(HefError, match="without a name, an input or an output"):
        read_hef(path)


def test_streams_that_share_a_channel(tmp_path: Path) -> None:
    hef = read_hef(_write(tmp_path / "x.hef", Wish([DECODER], mux=True)))
    assert [s.name for s in hef.groups[0].outputs] == list(DECODER.outputs)


@pytest.mark.parametrize(
    ("arch", "name", "positions"),
    [
        ("hailo8l", "tiny-whisper-decoder", HOST),
        ("hailo8", "tiny-whisper-decoder", HOST),
        ("hailo10h", "tiny-whisper-decoder-fixed-sequence", CHIP),
        ("hailo10h", "tiny_decoder_10s_32", HOST),
    ],
)
def test_who_adds_the_position_rows(tmp_path: Path, arch: str, name: str, positions: str) -> None:
    net = Net(name, DECODER.inputs, DECODER.outputs)
    hef = read_hef(_write(tmp_path / "x.hef", Wish([net], arch=arch)))
    shape = find_part(hef, "decoder")
    assert isinstance(shape, DecoderShape)
    assert (shape.positions, shape.length, shape.n_positions) == (positions, 32, 500)
    assert shape.features.endswith("input_layer1")
    assert shape.logits(51865) == tuple(DECODER.outputs)


def test_outputs_that_are_no_logits_are_left_out(tmp_path: Path) -> None:
    extra = {"d/extra1": (1, 32, 384), **DECODER.outputs, "d/extra2": (1, 500, 384)}
    net = Net("d", DECODER.inputs, extra)
    shape = find_part(read_hef(_write(tmp_path / "x.hef", Wish([net], "hailo10h"))), "decoder")
    assert isinstance(shape, DecoderShape)
    assert shape.logits(51865) == tuple(DECODER.outputs)
    with pytest.raises(HefError, match=r"a vocabulary of 51864 needs 12966, 12966"):
        shape.logits(51864)


def test_an_encoder_and_what_is_none(tmp_path: Path) -> None:
    hef = read_hef(_write(tmp_path / "x.hef", Wish([ENCODER])))
    shape = find_part(hef, "encoder")
    assert isinstance(shape, EncoderShape)
    assert (shape.n_frames, shape.n_mels, shape.n_positions, shape.d_model) == (1000, 80, 500, 384)
    with pytest.raises(HefError, match="holds no Whisper decoder but tiny-whisper-encoder-10s"):
        find_part(hef, "decoder")
    image = Net("yolo", {"yolo/input_layer1": (640, 640, 3)}, {"yolo/conv1": (20, 20, 85)})
    yolo = read_hef(_write(tmp_path / "y.hef", Wish([image], "hailo8")))
    assert recognise(yolo.groups[0], "hailo8") is None
    assert describe_hef(tmp_path / "y.hef")["networks"]["yolo"]["part"] == "no half of Whisper"


def test_what_has_another_number_of_streams_is_no_half_of_whisper(tmp_path: Path) -> None:
    two = {f"x/input_layer{n}": shape for n, shape in enumerate(ENCODER.inputs.values(), start=1)}
    for inputs, outputs in (
        ({**two, "x/input_layer9": (1, 1000, 80)}, ENCODER.outputs),
        (ENCODER.inputs, {"x/a": (1, 500, 384), "x/b": (1, 500, 384)}),
        ({f"x/input_layer{n}": (1, 500, 384) for n in range(3)}, DECODER.outputs),
    ):
        hef = read_hef(_write(tmp_path / "x.hef", Wish([Net("x", inputs, outputs)])))
        assert recognise(hef.groups[0], "hailo8l") is None


def test_a_placement_without_a_network_is_passed_over(tmp_path: Path) -> None:
    """The others say what it would."""

    def clear(hef: Any) -> None:
        (group,) = hef.network_groups
        group.placed[0].ClearField("inner")

    path = changed(tmp_path / "x.hef", Wish([DECODER], arch="hailo8l"), clear)
    (group,) = read_hef(path).groups
    assert {s.name: s.shape for s in group.inputs} == DECODER.inputs


def test_description_is_json(tmp_path: Path) -> None:
    facts = describe_hef(_write(tmp_path / "x.hef", Wish([ENCODER, DECODER])))
    assert json.loads(json.dumps(facts)) == facts
    assert facts["runs_on"] == ["hailo8", "hailo8l"]
    assert facts["networks"][ENCODER.name]["window_s"] == 10.0
    assert "8/8L" in facts["networks"][DECODER.name]["contract"]


def test_xxh3_against_values_of_xxhash() -> None:
    data = bytes(range(256)) * 40
    expected = {
        241: 0x2E8CD95421C6D02,
        1024: 0xA870F92984398D22,
        1025: 0x78C86E91EE939852,
        10240: 0xC03D2231AB9348F3,
    }
    assert {n: xxh3_64(memoryview(data[:n])) for n in expected} == expected
    with pytest.raises(ValueError, match="240 bytes"):
        xxh3_64(memoryview(data[:240]))


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_every_cut_is_refused_in_one_line(tmp_path: Path, version: int) -> None:
    whole = hef_bytes(Wish([ENCODER], version=version))
    path = tmp_path / "cut.hef"
    cuts = [*range(1, 64), *range(64, len(whole), 997)]
    for length in cuts:
        path.write_bytes(whole[:length])
        with pytest.raises(HefError, match=r"is broken or no HEF: .*; fetch") as caught:
            read_hef(path)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_any_changed_byte_of_the_description_is_noticed(tmp_path: Path, version: int) -> None:
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
        (b"\x0a\x02\x08\x03", "it has 0 networks"),
        (b"\x12\x00", "which chip"),
        (b"\x0a\x02\x08\x03\x12\x02\x42\x00", "without a context"),
        (b"\x0a\x7f", "beyond its message's end"),
        (b"\x08" + b"\xff" * 11, "never ends"),
        (b"\x08\xff", "in the middle of a number"),
        (b"\x0b", "unknown kind 3"),
        (b"\x02\x00", "without a number"),
        (b"\x08\x01", "a number where a message belongs"),
        (_nested(40), "nested without end"),
        (b"\x0a\x02\x08\x03" + b"\x12\x00" * 65, "it has 65 networks"),
        (_renamed(b"\xff\xfeab"), "a name that is no text"),
        (_renamed(b"ab\nc"), "unprintable characters"),
    ],
)
def test_hostile_descriptions(tmp_path: Path, proto: bytes, expected: str) -> None:
    path = tmp_path / "hostile.hef"
    path.write_bytes(with_header(proto, 0, b""))
    with pytest.raises(HefError, match=expected):
        read_hef(path)


def test_too_many_fields_end_early() -> None:
    many = memoryview(b"\x08\x01" * 1000)
    with pytest.raises(WireError, match="more fields than any such file needs"):
        Message(many, Budget(999), frozenset({1}))
    assert Message(many, Budget(1000), frozenset({1})).count(1) == 1000


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "it is empty"),
        (b"PK\x03\x04" + bytes(40), "it is no HEF: it begins with 0x504b0304"),
        (MAGIC.to_bytes(4, "big") + bytes([0, 0, 0, 9]) + bytes(40), "format has version 9"),
    ],
)
def test_other_files(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "other.hef"
    path.write_bytes(content)
    with pytest.raises(HefError, match=expected):
        read_hef(path)
    with pytest.raises(HefError, match="cannot be read"):
        read_hef(tmp_path / "missing.hef")
    with pytest.raises(HefError, match="cannot be read"):
        read_hef(tmp_path)
