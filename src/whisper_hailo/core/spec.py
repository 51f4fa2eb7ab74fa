"""`ModelSpec`: the content of a model directory, stored in its `model.json`."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from whisper_hailo.core.errors import ModelError, display_path
from whisper_hailo.core.paths import check_file_name
from whisper_hailo.core.strict_json import (
    MismatchError,
    decode,
    parse_json,
    read_bounded,
)
from whisper_hailo.core.types import FRAMES_PER_POSITION, FRAMES_PER_SECOND

ARCHES: Final = ("hailo8", "hailo8l", "hailo10h")
PARTS: Final = ("encoder", "decoder")
LARGEST_SIZE: Final = 1 << 20
"""Largest axis of a graph, far beyond any vocabulary."""


@dataclass(frozen=True, slots=True)
class HailoForm:
    """A graph of fixed sizes for the Hailo compiler (`docs/reference/hailo-graphs.md`).

    Attributes:
        part: one of `PARTS`.
        file: path in the model directory.
        length: text positions of a decoder, `None` for an encoder.
        inputs: graph input to shape, in the graph's order, as `outputs`.
        start_nodes: nodes or graph inputs where the compiler starts.
        chip_inputs: shape of each start on the chip, `(batch, height, width, channels)`.
        assets: `token_embedding` and `position_rows` to paths of a decoder's host arrays.
    """

    part: str
    file: str
    window_s: int
    length: int | None
    opset: int
    inputs: dict[str, tuple[int, ...]]
    outputs: dict[str, tuple[int, ...]]
    start_nodes: tuple[str, ...]
    end_nodes: tuple[str, ...]
    chip_inputs: tuple[tuple[int, ...], ...]
    assets: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        length = 1 if self.length is None else self.length
        sizes = [self.window_s, self.opset, length]
        for shape in (*self.inputs.values(), *self.outputs.values(), *self.chip_inputs):
            sizes.extend(shape)
        smallest = min(sizes)
        largest = max(sizes)
        if self.part not in PARTS or smallest < 1 or largest > LARGEST_SIZE:
            raise ModelError(
                f"{display_path(self.file)} is part {self.part[:20]!r} with sizes {smallest} to "
                f"{largest}, expected {' or '.join(PARTS)} with sizes from 1 to {LARGEST_SIZE}"
            )

    @property
    def emulated_file(self) -> str:
        """The path of the graph that computes as the chip does."""
        return f"{self.file.removesuffix('.onnx')}-emulated.onnx"


@dataclass(frozen=True, slots=True)
class HefRecord:
    """One compiled network, and its sources.

    Attributes:
        part: one of `PARTS`.
        file: path in the model directory.
        graph_sha256: of the Hailo-form graph.
        script_sha256: of the model script, which is stored with the HEF.
        compiler_version: the Dataflow Compiler's.
        snr_db: output layer to signal-to-noise ratio after quantisation in dB, if known.
        contexts: how many times the chip is loaded within one run, if known.
    """

    part: str
    arch: str
    file: str
    bytes: int
    sha256: str
    graph_sha256: str
    script_sha256: str
    calibration_sha256: str
    compiler_version: str
    snr_db: dict[str, float] = field(default_factory=dict)
    contexts: int | None = None


GROUPED_WIDTH = 8
"""Heads of the runtime's grouped attention are multiples of this width."""

AUDIO_BLOCK = 64
"""8-bit keys of the audio that are stored side by side, channel by channel: blocks of 64 and 128
are read three times as fast as those of 512."""

SIGNLESS_ZERO = 128
"""The unsigned 8-bit code of zero in keys and values of the audio."""

_LARGEST = {
    "n_mels": 1024,
    "n_audio_ctx": 65_536,
    "d_model": 16_384,
    "n_encoder_layers": 256,
    "n_encoder_heads": 256,
    "n_decoder_layers": 256,
    "n_decoder_heads": 256,
    "n_text_ctx": 65_536,
    "n_vocab": 1 << 20,
}
"""Largest sizes: far beyond large-v3, but small enough that a nonsensical config fails at once, and
not when memory runs out."""


@dataclass(frozen=True, slots=True)
class Dimensions:
    """Sizes of a Whisper model, named as in the original code.

    Attributes:
        n_audio_ctx: encoder positions of the full 30 s context (1500).
        n_text_ctx: decoder positions (448).
        d_model: width of encoder and decoder.
    """

    n_mels: int
    n_audio_ctx: int
    d_model: int
    n_encoder_layers: int
    n_encoder_heads: int
    n_decoder_layers: int
    n_decoder_heads: int
    n_text_ctx: int
    n_vocab: int

    def __post_init__(self) -> None:
        for name, largest in _LARGEST.items():
            value = getattr(self, name)
            if not 1 <= value <= largest:
                raise ModelError(
                    f"{name} is {value}, expected a whole number from 1 to {largest}"
                )
        for heads in (self.n_encoder_heads, self.n_decoder_heads):
            if self.d_model % heads:
                raise ModelError(
                    f"d_model {self.d_model} cannot be split into {heads} heads"
                )

    @property
    def head_size(self) -> int:
        """The width of a decoder head."""
        return self.d_model // self.n_decoder_heads

    @property
    def cache_head_size(self) -> int:
        """The width of a head in the decoder's cache, a multiple of `GROUPED_WIDTH`.

        Every published Whisper has heads of 64, which need no padding.
        """
        return math.ceil(self.head_size / GROUPED_WIDTH) * GROUPED_WIDTH

    @property
    def max_frames(self) -> int:
        """The log-mel frames of the full context (3000)."""
        return self.n_audio_ctx * FRAMES_PER_POSITION

    @property
    def max_window_s(self) -> float:
        """The seconds of the full context (30)."""
        return self.max_frames / FRAMES_PER_SECOND


SPEC_FILE = "model.json"
ENCODER_FILE = "encoder.onnx"
CROSS_KV_FILE = "cross_kv.onnx"
DECODER_FILE = "decoder.onnx"
SILENCE_FILE = "silence.safetensors"
PARITY_FILE = "parity.json"
"""The report of `validate`, which a new conversion removes."""

SPEC_VERSION = 9
"""Raised when graphs or entries change so that this program could misread earlier ones."""

_INT8_SAFE_FIELD: Final = "int8_safe_without_vnni"
_INT8_SAFE_ENTRY: Final = "pairs_fit"
"""A field of `ModelSpec`, and its name in `model.json`, which stays within a version."""


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """Control token ids, from the checkpoint's tokenizer and generation config.

    Missing ids are `None`; English-only checkpoints have no languages or tasks.

    Attributes:
        timestamp_begin: id of `<|0.00|>`; each further id is 0.02 s later.
        languages: language code to token id, such as `{"en": 50259}`.
        suppress: ids that are never sampled.
        begin_suppress: ids that are never sampled first.
    """

    sot: int
    eot: int
    transcribe: int | None = None
    translate: int | None = None
    sot_lm: int | None = None
    sot_prev: int | None = None
    no_speech: int | None = None
    no_timestamps: int | None = None
    timestamp_begin: int | None = None
    languages: dict[str, int] = field(default_factory=dict)
    suppress: tuple[int, ...] = ()
    begin_suppress: tuple[int, ...] = ()

    def all_ids(self) -> list[int]:
        """Return every id that is not missing."""
        values = [getattr(self, field.name) for field in fields(self)]
        single = [value for value in values if isinstance(value, int)]
        return [*single, *self.languages.values(), *self.suppress, *self.begin_suppress]


@dataclass(frozen=True, slots=True)
class FileRecord:
    """Size and SHA-256 of one file of the model directory."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Where a model came from.

    Attributes:
        name: directory name or hub id of the checkpoint.
        revision: hub commit; `None` for a local directory.
        package: packages of the Python package registry, with versions, if it came from there.
        sha256: by file name.
    """

    name: str
    revision: str | None = None
    sha256: dict[str, str] = field(default_factory=dict)
    package: str | None = None


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """All that is needed to run a converted model.

    Attributes:
        name: short name for results, such as `tiny`.
        quantization: decoder weights: `none`, `int8` or `int4`, or what another program calls them.
        encoder_quantization: encoder weights: `none`, `int8` or `int4`.
        half: quantised graphs use float16 where they are not 8-bit and it is safe.
        int8_safe_without_vnni: two neighbouring 8-bit products fit 16 bits together, so that every
            processor computes them exactly; otherwise some need slower kernels.
        alignment_heads: `(layer, head)` pairs whose cross-attention follows the audio.
    """

    name: str
    dims: Dimensions
    tokens: SpecialTokens
    quantization: str
    encoder_quantization: str
    alignment_heads: tuple[tuple[int, int], ...]
    source: ModelSource
    files: dict[str, FileRecord] = field(default_factory=dict)
    hailo: tuple[HailoForm, ...] = ()
    hefs: tuple[HefRecord, ...] = ()
    half: bool = False
    int8_safe_without_vnni: bool = False

    def __post_init__(self) -> None:
        for token in self.tokens.all_ids():
            if not 0 <= token < self.dims.n_vocab:
                raise ModelError(
                    f"control token id {token!r} is not one of the {self.dims.n_vocab} tokens; "
                    "tokenizer and configs must be of the same checkpoint"
                )
        for layer, head in self.alignment_heads:
            has_layer = 0 <= layer < self.dims.n_decoder_layers
            has_head = 0 <= head < self.dims.n_decoder_heads
            if not (has_layer and has_head):
                raise ModelError(
                    f"alignment head {layer}, {head} is not one of this decoder's"
                )
        names = [*self.files]
        for form in self.hailo:
            names += [form.file, *form.assets.values()]
        names += [hef.file for hef in self.hefs]
        for name in names:
            check_file_name(name)

    def record(self, file: str) -> FileRecord:
        """Return size and hash of a file of the model directory."""
        if file not in self.files:
            raise ModelError(
                f"{SPEC_FILE} of {self.name} does not list {display_path(file)}; convert the "
                "checkpoint again"
            )
        return self.files[file]

    def hailo_form(self, part: str) -> HailoForm:
        """Return the graph of fixed sizes that `convert --hailo` made of one part."""
        for form in self.hailo:
            if form.part == part:
                return form
        raise ModelError(
            f"{self.name} has no Hailo-form {part}; convert the checkpoint again with: "
            "whisper-hailo convert CHECKPOINT OUT --hailo"
        )

    @property
    def has_int8_audio(self) -> bool:
        """True if the cached decoder stores the keys and values of the audio in 8 bits."""
        return self.quantization != "none"

    @property
    def is_multilingual(self) -> bool:
        """True if the model knows other languages than English."""
        return bool(self.tokens.languages)

    def to_json(self) -> str:
        """Return canonical JSON text: equal specs give equal bytes."""
        entries = {"version": SPEC_VERSION, **asdict(self)}
        entries[_INT8_SAFE_ENTRY] = entries.pop(_INT8_SAFE_FIELD)
        return json.dumps(entries, indent=2, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: bytes, where: str) -> ModelSpec:
        """Parse `model.json`; `where` names it in messages."""
        try:
            raw = parse_json(text)
            entries = decode(dict[str, Any], raw)
            version = entries.get("version")
            if version != SPEC_VERSION:
                raise ModelError(
                    f"it has format version {version!r}, this program reads {SPEC_VERSION}; "
                    "convert the checkpoint again"
                )
            if _INT8_SAFE_ENTRY in entries:
                entries[_INT8_SAFE_FIELD] = entries.pop(_INT8_SAFE_ENTRY)
            return decode(cls, entries)
        except MismatchError as error:
            raise ModelError(
                f"{where} is not a model description ({error}); convert the checkpoint again"
            ) from error
        except ModelError as error:
            raise ModelError(f"{where}: {error}") from error

    @classmethod
    def load(cls, directory: Path) -> ModelSpec:
        """Read `directory/model.json`."""
        path = directory / SPEC_FILE
        if not path.is_file():
            raise ModelError(
                f"{display_path(directory)} has no readable {SPEC_FILE}; "
                "make a model directory with: whisper-hailo convert CHECKPOINT OUT"
            )
        return cls.from_json(read_bounded(path), str(path))
