"""What every rung is compared with: the checkpoint in float64, or else the float32 graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import numpy as np

from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.checkpoint.weights import AnyArray
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.errors import ModelError, shown
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FloatArray, IntArray
from whisper_hailo_tools.validate.reference import Reference
from whisper_hailo_tools.validate.runs import InnerGraph, cached_decoder, cached_encoder
from whisper_hailo_tools.validate.test_inputs import Material, ShownTokens


class Stores:
    """The folders of a ladder.

    Args:
        directory: the model directory.
        spec: its description.
        checkpoint: what it was made of, if that is at hand.
        work: empty folder for graphs that are made for the comparison.
    """

    def __init__(
        self, directory: Path, spec: ModelSpec, checkpoint: Checkpoint | None, work: Path
    ) -> None:
        self.directory = directory
        self.spec = spec
        self.checkpoint = checkpoint
        self._work = work

    @property
    def float_encoder(self) -> Path:
        """Model directory whose encoder is float32."""
        return self.directory if self.spec.encoder_quantization == "none" else self._float

    @property
    def float_decoder(self) -> Path:
        """Model directory whose decoder is float32; raises like `float_encoder`."""
        return self.directory if self.spec.quantization == "none" else self._float

    @cached_property
    def _float(self) -> Path:
        out = self._work / "float32"
        if self.checkpoint is None:
            raise ModelError(
                f"{shown(self.directory)} alone does not hold what this comparison needs (float32 "
                "graphs); give what it was converted from to --checkpoint"
            )
        options = ConvertOptions("none")
        convert_checkpoint(self.checkpoint.directory, out, options, source=self.spec.source)
        return out


Stages: TypeAlias = Iterable[tuple[str, AnyArray]]
"""Names and values along a data path."""


@dataclass(frozen=True, slots=True)
class ReferenceValues:
    """Where a reference's values come from.

    Attributes:
        name: what it is.
        encode: audio features `(batch, n_positions, d_model)` of mel windows.
        logits: `(batch, n_tokens, n_vocab)` of tokens, features, and how far they are padded.
        encoder_stages: values along the encoder for the first of some windows.
        decoder_stages: values along the decoder for the first row.
    """

    name: str
    encode: Callable[[FloatArray], AnyArray]
    logits: Callable[[IntArray, FloatArray, int], AnyArray]
    encoder_stages: Callable[[FloatArray], Stages]
    decoder_stages: Callable[[IntArray, FloatArray, int], Stages]


@dataclass(slots=True)
class Truth:
    """A reference and what it makes of the material.

    Attributes:
        source: where its values come from.
        material: what every rung is given.
        features: `(n_windows, n_positions, d_model)` float32 audio features.
    """

    source: ReferenceValues
    material: Material
    features: FloatArray
    _logits: dict[int, AnyArray] = field(default_factory=dict)

    @classmethod
    def of(cls, source: ReferenceValues, material: Material) -> Truth:
        features = source.encode(material.mel).astype(np.float32)
        return cls(source, material, features)

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def mel(self) -> FloatArray:
        return self.material.mel

    @property
    def shown(self) -> ShownTokens:
        """The tokens that decoders are shown."""
        return self.material.shown

    def logits(self, pad_to: int) -> AnyArray:
        """Its logits for its own features."""
        if pad_to not in self._logits:
            logits = self.source.logits(self.shown.tokens, self.features, pad_to)
            self._logits[pad_to] = logits
        return self._logits[pad_to]

    def encoder_stages(self) -> Stages:
        """Values along the encoder, first window."""
        return self.source.encoder_stages(self.mel[:1])

    def decoder_stages(self, pad_to: int) -> Stages:
        """Values along the decoder, first window."""
        return self.source.decoder_stages(self.shown.tokens[:1], self.features[:1], pad_to)


def from_checkpoint(checkpoint: Checkpoint) -> ReferenceValues:
    """The checkpoint's arrays in float64 NumPy."""
    reference = Reference(checkpoint)
    return ReferenceValues(
        f"checkpoint {checkpoint.directory.name} in float64",
        reference.encode,
        reference.logits,
        reference.encoder_stages,
        reference.decoder_stages,
    )


def from_graphs(stores: Stores) -> ReferenceValues:
    """The float32 graphs of a model directory."""
    dims, folder = stores.spec.dims, stores.float_decoder
    encoder = cached_encoder(stores.float_encoder)
    encoder_names = stage_names("encoder", dims.n_encoder_layers)
    decoder_names = stage_names("decoder", dims.n_decoder_layers)

    def logits(tokens: IntArray, features: FloatArray, pad_to: int) -> AnyArray:
        return cached_decoder(folder, pad_to).logits(tokens, features)

    def decoder_stages(tokens: IntArray, features: FloatArray, pad_to: int) -> Stages:
        run = cached_decoder(folder, pad_to)
        return _stages_of(run.inner(tokens[0], features[0]), decoder_names, run.names)

    return ReferenceValues(
        "float32 graphs of the model directory",
        encoder.encode,
        logits,
        lambda mel: _stages_of(encoder.inner(mel[0]), encoder_names, encoder.names),
        decoder_stages,
    )


def stage_names(part: str, n_layers: int) -> list[str]:
    """The stages along a part's data path, as `reference.Reference` yields them."""
    if part == "encoder":
        first = ["encoder.conv1.gelu", "encoder.conv2.gelu", "encoder.embedded"]
        steps, last = ["self_attn.residual", "out"], ["audio_features"]
    else:
        first, last = ["decoder.embedded"], ["decoder.hidden", "logits"]
        steps = ["self_attn.residual", "encoder_attn.residual", "out"]
    inner = [f"{part}.layers.{i}.{step}" for i in range(n_layers) for step in steps]
    return [*first, *inner, *last]


def _stages_of(
    graph: InnerGraph, stages: Sequence[str], names: dict[str, str]
) -> Iterator[tuple[str, AnyArray]]:
    """A graph's own values as the reference of the others; `names` as of its run."""
    by_name = {names.get(stage, stage): stage for stage in stages}
    for values in graph.values(list(by_name)):
        yield from ((by_name[name], value) for name, value in values.items())
