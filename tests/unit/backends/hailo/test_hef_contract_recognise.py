"""Recognition of a network by its names and shapes, and its description."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.hef_files import DECODER, ENCODER, write
from tests.standin.hef_file import Net, Wish, hef_bytes
from whisper_hailo.backends.hailo.hef_contract import (
    CHIP,
    HOST,
    DecoderShape,
    EncoderShape,
    find_part,
    recognise,
)
from whisper_hailo.backends.hailo.hef_file import HefFile, HefGroup, read_hef
from whisper_hailo.convert.inspect import describe_hef
from whisper_hailo.core.errors import HefError


def test_describe_hef_adds_what_the_file_lacks(tmp_path: Path) -> None:
    path = tmp_path / "x.hef"
    path.write_bytes(hef_bytes(Wish([ENCODER], compiler="")))
    assert describe_hef(path)["compiler_version"] == "not stated"
    path.write_bytes(hef_bytes(Wish([DECODER, ENCODER], arch="hailo15h", version=1)))
    facts = describe_hef(path)
    assert facts["compiler_version"] == "3.33.0"
    assert facts["runs_on"] == ["hailo10h", "hailo15h"]
    assert facts["bytes"] == path.stat().st_size
    decoder, encoder = facts["networks"].values()
    assert (encoder["part"], encoder["window_s"], encoder["d_model"]) == (
        "encoder",
        10,
        384,
    )
    assert encoder["contexts"] == 3
    assert {key: decoder[key] for key in ("part", "positions", "length", "d_model")} == {
        "part": "decoder", "positions": 500, "length": 32, "d_model": 384,
    }  # fmt: skip
    assert list(decoder["outputs"]) == list(DECODER.outputs)
    stream = decoder["inputs"]["tiny-whisper-decoder/input_layer1"]
    assert stream == [1, 500, 384]


def group_of(
    inputs: dict[str, tuple[int, int, int]],
    outputs: dict[str, tuple[int, int, int]],
    name: str = "x",
) -> HefGroup:
    return HefGroup(name, 1, inputs, outputs)


@pytest.mark.parametrize(
    ("mel", "features", "is_encoder"),
    [
        ((1, 100, 80), (1, 50, 64), True), ((2, 100, 80), (1, 50, 64), False),
        ((100, 1, 80), (50, 1, 64), True), ((100, 2, 80), (50, 1, 64), False),
        ((1, 100, 80), (2, 50, 64), False), ((1, 101, 80), (1, 50, 64), False),
        ((1, 100, 80), (1, 100, 64), False), ((1, 50, 80), (1, 100, 64), False),
    ],
)  # fmt: skip
def test_recognise_encoder_by_its_shapes(
    mel: tuple[int, int, int], features: tuple[int, int, int], is_encoder: bool
) -> None:
    found = recognise(group_of({"i": mel}, {"o": features}), "hailo8")
    expected = EncoderShape("x", "i", "o", 100, 80, 50, 64)
    assert found == (expected if is_encoder else None)


@pytest.mark.parametrize(
    ("features", "embeddings", "rows", "is_decoder"),
    [
        ((1, 50, 64), (8, 1, 64), (1, 8, 10), True), ((1, 50, 64), (1, 8, 64), (8, 1, 10), True),
        ((1, 50, 64), (1, 1, 64), (1, 1, 10), True), ((2, 50, 64), (8, 1, 64), (1, 8, 10), False),
        ((1, 50, 64), (8, 1, 65), (1, 8, 10), False), ((1, 50, 64), (4, 2, 64), (2, 2, 10), False),
        ((1, 50, 64), (2, 4, 64), (1, 4, 10), False), ((1, 50, 64), (8, 1, 64), (1, 7, 10), False),
        ((1, 50, 64), (8, 1, 64), (2, 4, 10), True),
    ],
)  # fmt: skip
def test_recognise_decoder_by_its_shapes(
    features: tuple[int, int, int],
    embeddings: tuple[int, int, int],
    rows: tuple[int, int, int],
    is_decoder: bool,
) -> None:
    """Inputs are told apart by their names, whatever their order in the file."""
    for names in (("a", "b"), ("b", "a")):
        inputs = {name: {"a": features, "b": embeddings}[name] for name in names}
        group = group_of(inputs, {"o": rows, "other": (1, 99, 7)})
        found = recognise(group, "hailo10h")
        length = max(embeddings[:2])
        expected = DecoderShape("x", "a", "b", 50, length, 64, CHIP, (("o", 10),))
        assert found == (expected if is_decoder else None)


@pytest.mark.parametrize(
    ("name", "arch", "where"),
    [
        ("x_decoder_10s_32", "hailo10h", HOST), ("x_decoder_10s_32b", "hailo10h", CHIP),
        ("x_decoder_s_32", "hailo10h", CHIP), ("x", "hailo15h", CHIP), ("x", "hailo8", HOST),
        ("x", "hailo8l", HOST), ("x", "hailo8_a0", HOST),
    ],
)  # fmt: skip
def test_recognise_positions_by_the_networks_name(
    name: str, arch: str, where: str
) -> None:
    group = group_of({"a": (1, 5, 6), "b": (8, 1, 6)}, {"o": (1, 8, 10)}, name)
    found = recognise(group, arch)
    assert isinstance(found, DecoderShape)
    assert found.positions == where


@pytest.mark.parametrize(
    ("arch", "name", "positions"),
    [
        ("hailo8l", "tiny-whisper-decoder", HOST),
        ("hailo8", "tiny-whisper-decoder", HOST),
        ("hailo10h", "tiny-whisper-decoder-fixed-sequence", CHIP),
        ("hailo10h", "tiny_decoder_10s_32", HOST),
    ],
)
def test_find_part_finds_the_side_of_position_rows(
    tmp_path: Path, arch: str, name: str, positions: str
) -> None:
    net = Net(name, DECODER.inputs, DECODER.outputs)
    hef = read_hef(write(tmp_path / "x.hef", Wish([net], arch=arch)))
    shape = find_part(hef, DecoderShape)
    assert (shape.positions, shape.length, shape.n_positions) == (positions, 32, 500)
    assert shape.features.endswith("input_layer1")
    assert shape.logits(51865) == tuple(DECODER.outputs)


def test_find_part_ignores_outputs_without_text_rows(tmp_path: Path) -> None:
    extra = {"d/extra1": (1, 32, 384), **DECODER.outputs, "d/extra2": (1, 500, 384)}
    net = Net("d", DECODER.inputs, extra)
    shape = find_part(
        read_hef(write(tmp_path / "x.hef", Wish([net], "hailo10h"))), DecoderShape
    )
    assert shape.logits(51865) == tuple(DECODER.outputs)
    with pytest.raises(HefError, match=r"\b51864 .*\b12966, 12966, 12966, 12966;"):
        shape.logits(51864)


def test_find_part_of_missing_half_is_refused(tmp_path: Path) -> None:
    hef = read_hef(write(tmp_path / "x.hef", Wish([ENCODER])))
    shape = find_part(hef, EncoderShape)
    assert (shape.n_frames, shape.n_mels, shape.n_positions, shape.d_model) == (
        1000,
        80,
        500,
        384,
    )
    with pytest.raises(
        HefError,
        match=r"x\.hef .*decoder .*tiny-whisper-encoder-10s;.*whisper-hailo inspect",
    ):
        find_part(hef, DecoderShape)
    image = Net(
        "yolo", {"yolo/input_layer1": (640, 640, 3)}, {"yolo/conv1": (20, 20, 85)}
    )
    yolo = read_hef(write(tmp_path / "y.hef", Wish([image], "hailo8")))
    assert recognise(yolo.groups[0], "hailo8") is None
    assert (
        describe_hef(tmp_path / "y.hef")["networks"]["yolo"]["part"]
        == "no half of Whisper"
    )


def test_recognise_of_other_stream_counts_is_none(tmp_path: Path) -> None:
    pair = {
        f"x/input_layer{n}": shape
        for n, shape in enumerate(ENCODER.inputs.values(), start=1)
    }
    for inputs, outputs in (
        ({**pair, "x/input_layer9": (1, 1000, 80)}, ENCODER.outputs),
        (ENCODER.inputs, {"x/a": (1, 500, 384), "x/b": (1, 500, 384)}),
        ({f"x/input_layer{n}": (1, 500, 384) for n in range(3)}, DECODER.outputs),
    ):
        hef = read_hef(write(tmp_path / "x.hef", Wish([Net("x", inputs, outputs)])))
        assert recognise(hef.groups[0], "hailo8l") is None


def two_part(folder: Path, *nets: Net) -> HefFile:
    return read_hef(write(folder / "x.hef", Wish([*nets], "hailo10h", version=3)))


def test_find_part_prefers_the_encoder_by_name(tmp_path: Path) -> None:
    first = Net("front", {"front/in": (1, 1000, 80)}, {"front/out": (1, 500, 384)})
    named = Net("small_encoder", {"e/in": (1, 1000, 80)}, {"e/out": (1, 500, 384)})
    assert (
        find_part(two_part(tmp_path, first, named), EncoderShape).group
        == "small_encoder"
    )
    assert (
        find_part(two_part(tmp_path, named, first), EncoderShape).group
        == "small_encoder"
    )
    assert find_part(two_part(tmp_path, first, ENCODER), EncoderShape).group == "front"
