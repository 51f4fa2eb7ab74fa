"""HEFs that fit a model, a chip and a HailoRT, and how a network is recognised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.hef_files import (
    DECODER,
    ENCODER,
    SPEC,
    decoder,
    encoder,
    write,
    written,
)
from tests.standin.hef_file import Net, Wish, hef_bytes
from whisper_hailo.backends.hailo.hef_catalog import PAIRS, find_known
from whisper_hailo.backends.hailo.hef_contract import (
    CHIP,
    HOST,
    RUNS_ON,
    DecoderShape,
    EncoderShape,
    check_decoder,
    check_encoder,
    find_part,
    recognise,
)
from whisper_hailo.backends.hailo.hef_file import HefFile, HefGroup, read_hef
from whisper_hailo.convert.inspect import describe_hef
from whisper_hailo.core.errors import HefError


def test_check_encoder_accepts_any_window_of_the_model(
    tmp_path: Path,
) -> None:
    for frames in (200, 1000, 3000):
        hef, shape = check_encoder(written(tmp_path, encoder(frames)), SPEC)
        assert (shape.n_frames, shape.n_positions, hef.arch) == (
            frames,
            frames // 2,
            "hailo8l",
        )


@pytest.mark.parametrize(
    ("net", "data"),
    [
        (encoder(mels=128), r"mel bins 128, .*\b80;.*--model"),
        (encoder(mels=79), r"mel bins 79, .*\b80;.*--model"),
        (encoder(width=512), r"width 512, .*\b384;.*--model"),
        (encoder(frames=3002), r"\b3002 .*\b3000;.*--model"),
    ],
)
def test_check_encoder_of_another_model_is_refused(
    tmp_path: Path, net: Net, data: str
) -> None:
    with pytest.raises(HefError, match=data):
        check_encoder(written(tmp_path, net), SPEC)


def test_recognise_encoder_needs_two_frames_a_position(tmp_path: Path) -> None:
    """Another relation of input and output is some other network."""
    group = read_hef(written(tmp_path, encoder(frames=1000, positions=501))).groups[0]
    assert recognise(group, "hailo8l") is None


def test_check_decoder_accepts_the_models_decoder(tmp_path: Path) -> None:
    _, shape = check_decoder(written(tmp_path, decoder()), SPEC)
    assert (shape.length, shape.n_positions, shape.d_model) == (32, 500, 384)


@pytest.mark.parametrize(
    ("net", "data"),
    [
        (decoder(width=512), r"width 512, .*\b384;.*--model"),
        (decoder(last=12966), r"\b51865 .*\b12966, 12966, 12966, 12967;"),
    ],
)
def test_check_decoder_of_another_model_is_refused(
    tmp_path: Path, net: Net, data: str
) -> None:
    with pytest.raises(HefError, match=data):
        check_decoder(written(tmp_path, net), SPEC)


def test_decoder_shape_logits_are_four_parts_in_order() -> None:
    """Other outputs of a 10H are left out: those of another size, and a fifth part."""
    columns = [
        ("a", 7),
        ("b", 10),
        ("c", 10),
        ("d", 3),
        ("e", 10),
        ("f", 12),
        ("g", 12),
    ]
    shape = DecoderShape("d", "f", "e", 500, 32, 384, "chip", tuple(columns))
    assert shape.logits(42) == ("b", "c", "e", "f")
    # Together they are all of it.
    assert shape.logits(64) == tuple(name for name, _ in columns)
    with pytest.raises(HefError, match=r"\b43 .*\b10, 10, 10, 13;"):
        shape.logits(43)


def test_runs_on_allows_smaller_chips_files_only() -> None:
    """HailoRT's own table."""
    assert RUNS_ON["hailo8"] == {"hailo8", "hailo8l"}
    assert RUNS_ON["hailo8l"] == {"hailo8l"}
    assert (
        RUNS_ON["hailo10h"]
        == RUNS_ON["hailo15h"]
        == {"hailo10h", "hailo15h", "hailo15m"}
    )


@pytest.mark.parametrize(
    ("arch", "variant", "window_s"),
    [
        ("hailo8", "tiny", 10), ("hailo8", "base", 5), ("hailo8l", "tiny", 10),
        ("hailo8l", "base", 5), ("hailo10h", "tiny", 10), ("hailo10h", "tiny.en", 10),
        ("hailo10h", "base", 10),
    ],
)  # fmt: skip
def test_find_known_has_the_vendors_windows(
    arch: str, variant: str, window_s: int
) -> None:
    known = find_known(arch, variant)
    assert known is not None
    assert known.window_s == window_s
    assert len(PAIRS) == 7
    assert find_known(arch, "medium") is None


@pytest.mark.parametrize(
    ("net", "check"), [(encoder(), check_encoder), (decoder(), check_decoder)]
)
def test_check_encoder_and_decoder_skip_the_checksum(
    tmp_path: Path, net: Net, check: Any
) -> None:
    """A second for each hundred megabytes, at every start."""
    changed = bytearray(hef_bytes(Wish([net], version=1)))
    changed[-1] ^= 1
    path = tmp_path / "x.hef"
    path.write_bytes(changed)
    hef, _ = check(path, SPEC)
    assert hef.path == path
    with pytest.raises(HefError, match=r"x\.hef .*CRC-32"):
        read_hef(path)


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
