"""The contract of a HEF's network: its half of Whisper, the host's part, and the model it fits."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from whisper_hailo.backends.hailo.hef_file import HefFile, HefGroup, read_hef
from whisper_hailo.core.errors import HefError, display_path
from whisper_hailo.core.spec import ModelSpec

RUNS_ON: Final[dict[str, frozenset[str]]] = {
    "hailo8": frozenset({"hailo8", "hailo8l"}),
    "hailo8_a0": frozenset({"hailo8_a0"}),
    "hailo8l": frozenset({"hailo8l"}),
    "hailo10h": frozenset({"hailo10h", "hailo15h", "hailo15m"}),
    "hailo15h": frozenset({"hailo10h", "hailo15h", "hailo15m"}),
    "hailo15m": frozenset({"hailo15m"}),
    "hailo15l": frozenset({"hailo15l"}),
}
"""Chip to the HEFs that it takes; HailoRT, `device_internal.cpp`."""

HOST: Final = "host"
CHIP: Final = "chip"
"""Where the position rows are added to a decoder's token embeddings."""

_N_CHUNKS: Final = 4
_OURS: Final = re.compile(r"_decoder_\d+s_\d+$")
"""Networks that this program compiled are called so; they begin behind the addition."""


@dataclass(frozen=True, slots=True)
class EncoderShape:
    """An encoder: `input` is `(1, n_frames, n_mels)`, `output` `(1, n_positions, d_model)`."""

    group: str
    input: str
    output: str
    n_frames: int
    n_mels: int
    n_positions: int
    d_model: int


@dataclass(frozen=True, slots=True)
class DecoderShape:
    """A decoder without a cache: features and embeddings, by the inputs' names, in, logits out.

    `positions` is who adds the position rows: `host` or `chip`. `outputs` are all that have a row
    per text position, with their columns, sorted.
    """

    group: str
    features: str
    embeddings: str
    n_positions: int
    length: int
    d_model: int
    positions: str
    outputs: tuple[tuple[str, int], ...]

    def logits(self, n_vocab: int) -> tuple[str, ...]:
        """Return names of the outputs that together are the logits, in the vocabulary's order.

        Networks for the 10H give others, too; those of the vocabulary are a quarter each.
        """
        if sum(columns for _, columns in self.outputs) == n_vocab:
            return tuple(name for name, _ in self.outputs)
        quarter = n_vocab // _N_CHUNKS
        expected = [quarter] * (_N_CHUNKS - 1)
        expected.append(n_vocab - sum(expected))
        names: list[str] = []
        for name, columns in self.outputs:
            if len(names) < _N_CHUNKS and columns == expected[len(names)]:
                names.append(name)
        if len(names) == _N_CHUNKS:
            return tuple(names)
        sizes = ", ".join(str(columns) for _, columns in self.outputs)
        needed = ", ".join(map(str, expected))
        raise HefError(
            f"{self.group} gives {sizes} columns, a vocabulary of {n_vocab} needs "
            f"{needed}; decoder and tokenizer must be from the same model"
        )


Shape: TypeAlias = EncoderShape | DecoderShape
ShapeT = TypeVar("ShapeT", EncoderShape, DecoderShape)


def recognise(group: HefGroup, arch: str) -> Shape | None:
    """Return which half of Whisper a network is, by its inputs and outputs; `None` if neither."""
    if len(group.inputs) == 1 and len(group.outputs) == 1:
        return _recognise_encoder(group)
    if len(group.inputs) == 2:
        return _recognise_decoder(group, arch)
    return None


def find_part(hef: HefFile, kind: type[ShapeT]) -> ShapeT:
    """Return a half of Whisper; a file for the 10H may hold both.

    Of several it is the one whose name ends with the part, as HailoRT's server takes it.

    Raises:
        HefError: the file holds no such half.
    """
    part = "encoder" if kind is EncoderShape else "decoder"
    shapes = [recognise(group, hef.arch) for group in hef.groups]
    candidates = [shape for shape in shapes if isinstance(shape, kind)]
    for shape in candidates:
        if shape.group.endswith(part):
            return shape
    if candidates:
        return candidates[0]
    names = ", ".join(group.name for group in hef.groups)
    raise HefError(
        f"{display_path(hef.path)} holds no Whisper {part} but {names}; "
        f"inspect it with: whisper-hailo inspect {display_path(hef.path)}"
    )


def _recognise_encoder(group: HefGroup) -> EncoderShape | None:
    """Recognise an encoder; time may lie along width or height, which is the same in memory."""
    ((mel, mel_shape),) = group.inputs.items()
    ((features, features_shape),) = group.outputs.items()
    *frame_axes, n_mels = mel_shape
    *position_axes, d_model = features_shape
    n_frames = max(frame_axes)
    n_positions = max(position_axes)
    if min(frame_axes) != 1 or min(position_axes) != 1:
        return None
    if n_frames != 2 * n_positions:  # the second convolution's stride
        return None
    return EncoderShape(
        group=group.name,
        input=mel,
        output=features,
        n_frames=n_frames,
        n_mels=n_mels,
        n_positions=n_positions,
        d_model=d_model,
    )


def _recognise_decoder(group: HefGroup, arch: str) -> DecoderShape | None:
    """Recognise a decoder; its inputs are distinguished by the order of their names."""
    features_input, embeddings_input = sorted(group.inputs.items())
    features, (height, n_positions, d_model) = features_input
    embeddings, (*token_axes, width) = embeddings_input
    length = max(token_axes)
    outputs = tuple(
        (name, n_columns)
        for name, (rows, columns, n_columns) in group.outputs.items()
        if rows * columns == length
    )
    if height != 1 or d_model != width or min(token_axes) != 1 or not outputs:
        return None
    on_host = _OURS.search(group.name) is not None or arch.startswith("hailo8")
    return DecoderShape(
        group=group.name,
        features=features,
        embeddings=embeddings,
        n_positions=n_positions,
        length=length,
        d_model=d_model,
        positions=HOST if on_host else CHIP,
        outputs=outputs,
    )


def check_encoder(path: Path, spec: ModelSpec) -> tuple[HefFile, EncoderShape]:
    """Return a HEF and its encoder.

    Raises:
        HefError: it has none, or one of another model.
    """
    # HailoRT compares the checksum when it loads the file.
    hef = read_hef(path, verify=False)
    shape = find_part(hef, EncoderShape)
    dims = spec.dims
    _check_size(path, spec, "mel bins", shape.n_mels, dims.n_mels)
    _check_size(path, spec, "width", shape.d_model, dims.d_model)
    if shape.n_frames > dims.max_frames:
        raise HefError(
            f"{display_path(path)} takes {shape.n_frames} frames, {spec.name} has "
            f"{dims.max_frames}; encoder and --model must be from the same model"
        )
    return hef, shape


def check_decoder(path: Path, spec: ModelSpec) -> tuple[HefFile, DecoderShape]:
    """Return a HEF and its decoder.

    Raises:
        HefError: it has none, or one of another model.
    """
    hef = read_hef(path, verify=False)
    shape = find_part(hef, DecoderShape)
    _check_size(path, spec, "width", shape.d_model, spec.dims.d_model)
    shape.logits(spec.dims.n_vocab)
    return hef, shape


def _check_size(
    path: Path,
    spec: ModelSpec,
    name: str,
    got: int,
    expected: int,
) -> None:
    if got != expected:
        raise HefError(
            f"{display_path(path)} has {name} {got}, {spec.name} has {expected}; "
            "HEF and --model must be from the same model"
        )
