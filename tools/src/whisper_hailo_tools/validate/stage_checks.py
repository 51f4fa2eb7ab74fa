"""The comparison of each form's graph with the reference, on the same windows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

import numpy as np

from whisper_hailo.backends.fixed import emulated_plan
from whisper_hailo.backends.hailo.hef_catalog import matching_hef
from whisper_hailo.backends.select import find_npu
from whisper_hailo.checkpoint.weights import AnyArray
from whisper_hailo.core.paths import resolve_within
from whisper_hailo.core.spec import PARTS, HailoForm
from whisper_hailo.core.types import FloatArray
from whisper_hailo_tools.difference import Difference, DifferenceTally, difference
from whisper_hailo_tools.options import MIN_CHIP_SNR_DB
from whisper_hailo_tools.validate.reference import (
    DecoderTokens,
    GraphSources,
    ReferenceModel,
)
from whisper_hailo_tools.validate.reference_mel import reference_mel
from whisper_hailo_tools.validate.runs import (
    DecoderRun,
    EncoderRun,
    cached_decoder,
    cached_encoder,
    hailo_decoder_run,
    hailo_encoder_run,
    hef_decoder,
    hef_encoder,
    stage_values,
)

LOG_MEL: Final = "log-mel"
FLOAT: Final = "float32"
QUANTIZED: Final = "quantised"
HAILO: Final = "hailo-form"
EMULATED: Final = "emulated"
HEF: Final = "hef"
"""Forms of a part."""

PASSED: Final = "passed"
FAILED: Final = "failed"
NOT_RUN: Final = "not run"
"""Results of a comparison."""

_NO_FORMS: Final = "no graph for the Hailo compiler; convert with --hailo"

_CEILING_DB: Final = 180.0
"""The ratio of equal arrays in place of infinity: more than float32 can have."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """The `same` of all (`of`) positions at which the best token is the reference's."""

    same: int
    of: int


@dataclass(frozen=True, slots=True)
class Limit:
    """The limit of a form: in decibels, and in tokens of the transcripts.

    Attributes:
        snr_db: least signal-to-noise ratio in dB.
        same_tokens: least share of tokens that are the reference's.
    """

    snr_db: float
    same_tokens: float = 0.0

    def holds(self, error: Difference, tokens: Agreement | None) -> bool:
        """Return whether a difference, and the agreement of tokens, are within the limit."""
        if error.snr_db < self.snr_db:
            return False
        if tokens is None:
            return True
        # One may differ among few: two tokens may be as good as equal.
        return tokens.same >= min(self.same_tokens * tokens.of, tokens.of - 1)

    @property
    def text(self) -> str:
        """Text of the limit for tables."""
        text = f"SNR >= {self.snr_db:g} dB"
        if self.same_tokens:
            text += f", tokens >= {100 * self.same_tokens:g} %"
        return text


# What healthy models reach, and broken ones do not, is in docs/validation.md.

EXACT: Final = Limit(80.0, 0.99)
"""Float32 graphs that compute the same in another order. Real base reaches 104 dB: its residual
stream has values of several hundred, beside which small ones lose digits."""

BLOCKS: Final = {"int8": Limit(18.0, 0.85), "int4": Limit(10.0, 0.75)}
"""Weight-only blocks: real base reaches 24 and 35 dB with 8 bits."""

CHIP: Final = Limit(MIN_CHIP_SNR_DB, 0.8)


MEL: Final = Limit(80.0)
"""Powers are float32, from there on: it reaches 130 dB."""


def limit_of(kind: str, quantization: str) -> Limit:
    """Return the limit of a form; `quantization` is that of its weights."""
    if kind in (EMULATED, HEF):
        return CHIP
    if kind == QUANTIZED:
        return BLOCKS.get(quantization, EXACT)
    return EXACT


@dataclass(frozen=True, slots=True)
class LayerResult:
    """One stage along the data path, with its signal-to-noise ratio against the reference."""

    name: str
    snr_db: float

    def to_dict(self) -> dict[str, Any]:
        """Return the values for JSON, which has no infinity: `None` in its place."""
        return {
            "name": self.name,
            "snr_db": self.snr_db if np.isfinite(self.snr_db) else None,
        }


@dataclass(frozen=True, slots=True)
class FormResult:
    """One part in one form.

    Attributes:
        status: `passed`, `failed` or `not run`.
        graph: name of the graph, or why none ran.
        tokens: agreement of the transcripts' tokens.
        layers: the stages along the data path.
    """

    kind: str
    part: str
    status: str
    graph: str
    limit: Limit | None = None
    difference: Difference | None = None
    tokens: Agreement | None = None
    layers: tuple[LayerResult, ...] = ()

    @property
    def steepest_fall(self) -> tuple[LayerResult, LayerResult] | None:
        """The two stages between which the ratio falls most; `None` where it never falls."""
        largest_fall_db = 0.0
        stages = None
        for before, after in pairwise(self.layers):
            fall_db = min(before.snr_db, _CEILING_DB) - after.snr_db
            if fall_db > largest_fall_db:
                largest_fall_db = fall_db
                stages = (before, after)
        return stages

    def to_dict(self) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "rung": self.kind,
            "part": self.part,
            "status": self.status,
        }
        if self.difference is None or self.limit is None:
            return facts | {"reason": self.graph}
        return facts | {
            "graph": self.graph,
            "limit": self.limit.text,
            "difference": self.difference.to_dict(),
            "tokens": None
            if self.tokens is None
            else [self.tokens.same, self.tokens.of],
            "layers": [layer.to_dict() for layer in self.layers],
        }


def try_encoder(
    kind: str,
    run: EncoderRun,
    reference: ReferenceModel,
    judge: DecoderRun,
    limit: Limit,
) -> FormResult:
    """Run an encoder; the decoder `judge` gives the tokens that are compared."""
    fed = reference.fed
    features = run.encode(reference.mel)
    expected = judge.logits(fed.tokens, reference.features)
    actual = judge.logits(fed.tokens, features)
    error = difference(features, reference.features)
    tokens = agreement(actual, expected, fed)
    stages = reference.source.encoder_stages(reference.mel[:1])
    return FormResult(
        kind=kind,
        part="encoder",
        status=PASSED if limit.holds(error, tokens) else FAILED,
        graph=run.graph,
        limit=limit,
        difference=error,
        tokens=tokens,
        layers=tuple(_compare_layers(run, stages, reference.mel[0])),
    )


def try_decoder(
    kind: str,
    run: DecoderRun,
    reference: ReferenceModel,
    limit: Limit,
) -> FormResult:
    """Run a decoder on the reference's features."""
    fed = reference.fed
    features = reference.features
    expected = reference.logits(run.pad_to)
    actual = run.logits(fed.tokens, features)
    tally = DifferenceTally()
    for row, length in enumerate(fed.lengths):
        tally.add(actual[row, :length], expected[row, :length])
    error = tally.difference()
    tokens = agreement(actual, expected, fed)
    stages = reference.source.decoder_stages(fed.tokens[:1], features[:1], run.pad_to)
    return FormResult(
        kind=kind,
        part="decoder",
        status=PASSED if limit.holds(error, tokens) else FAILED,
        graph=run.graph,
        limit=limit,
        difference=error,
        tokens=tokens,
        layers=tuple(_compare_layers(run, stages, fed.tokens[0], features[0])),
    )


def try_mel(windows: Sequence[FloatArray], mel: FloatArray) -> FormResult:
    """Compare the log-mel of windows `(n_samples,)` with the formula, written plainly."""
    expected = np.stack([reference_mel(audio, mel.shape[1]) for audio in windows])
    error = difference(mel, expected)
    return FormResult(
        kind=LOG_MEL,
        part="encoder",
        status=PASSED if MEL.holds(error, None) else FAILED,
        graph="log_mel",
        limit=MEL,
        difference=error,
    )


def agreement(actual: AnyArray, expected: AnyArray, fed: DecoderTokens) -> Agreement:
    """Count the positions where both choose the same token, given the same ones before it."""
    positions = list(fed.deciding_positions())
    same = 0
    for position in positions:
        if actual[position].argmax() == expected[position].argmax():
            same += 1
    return Agreement(same, len(positions))


def _compare_layers(
    run: EncoderRun | DecoderRun, stages: Iterable[tuple[str, AnyArray]], *fed: AnyArray
) -> Iterator[LayerResult]:
    """Yield the ratio of a graph, fed with one row, at each stage of the reference."""
    references = dict(stages) if run.inner is not None else {}
    for stage, got in stage_values(run, references, *fed):
        expected = references[stage]
        if np.squeeze(got).shape == np.squeeze(expected).shape:
            yield LayerResult(
                stage, difference(got.reshape(expected.shape), expected).snr_db
            )


class FormChecks:
    """The comparisons of all forms in one model directory."""

    def __init__(self, sources: GraphSources, reference: ReferenceModel) -> None:
        self._directory = sources.directory
        self._spec = sources.spec
        self._sources = sources
        self._reference = reference

    def check_all(self) -> Iterator[FormResult]:
        """Check every form, first those of the encoder, then those of the decoder."""
        forms = {
            FLOAT: self._float,
            QUANTIZED: self._quantized,
            HAILO: self._hailo,
            EMULATED: self._emulated,
            HEF: self._hef,
        }
        for part in PARTS:
            for kind, find_run in forms.items():
                run = find_run(part)
                limit = limit_of(kind, self._quantization(part))
                if isinstance(run, str):
                    yield FormResult(kind, part, NOT_RUN, run)
                elif isinstance(run, EncoderRun):
                    yield try_encoder(kind, run, self._reference, self._decoder, limit)
                else:
                    yield try_decoder(kind, run, self._reference, limit)

    @cached_property
    def _decoder(self) -> DecoderRun:
        return cached_decoder(self._sources.float_decoder)

    def _quantization(self, part: str) -> str:
        spec = self._spec
        return spec.encoder_quantization if part == "encoder" else spec.quantization

    def _form(self, part: str) -> HailoForm | None:
        return next((form for form in self._spec.hailo if form.part == part), None)

    def _float(self, part: str) -> EncoderRun | DecoderRun | str:
        if self._sources.checkpoint is None:
            return "the reference here; --checkpoint gives a higher one"
        if part == "encoder":
            return cached_encoder(self._sources.float_encoder)
        return self._decoder

    def _quantized(self, part: str) -> EncoderRun | DecoderRun | str:
        if self._quantization(part) == "none":
            option = "--encoder-quantize" if part == "encoder" else "--quantize"
            return f"float32 here; convert with {option} to compare another one"
        make_run = cached_encoder if part == "encoder" else cached_decoder
        return make_run(self._directory)

    def _hailo(self, part: str) -> EncoderRun | DecoderRun | str:
        form = self._form(part)
        if form is None:
            return _NO_FORMS
        make_run = hailo_encoder_run if part == "encoder" else hailo_decoder_run
        return make_run(resolve_within(self._directory, form.file))

    def _emulated(self, part: str) -> EncoderRun | DecoderRun | str:
        form = self._form(part)
        if form is None:
            return _NO_FORMS
        path = resolve_within(self._directory, form.emulated_file)
        if not path.is_file():
            return f"no {path.name}; whisper-hailo emulate --part {part} makes it"
        make_run = hailo_encoder_run if part == "encoder" else hailo_decoder_run
        return make_run(path, f"{path.name} ({emulated_plan(path, self._spec, form)})")

    def _hef(self, part: str) -> EncoderRun | DecoderRun | str:
        """Return a run of the HEF for this machine's chip, if it has the compared sizes."""
        arch, chip = find_npu()
        if arch is None:
            return f"{chip}; validate on the device"
        path = matching_hef(self._directory, self._spec, arch, part)
        if path is None:
            return f"no HEF of this model for {chip}; whisper-hailo compile makes one"
        reference = self._reference
        if part == "encoder":
            return hef_encoder(path, self._spec, reference.mel.shape[2])
        sizes = (reference.features.shape[1], reference.fed.tokens.shape[1])
        return hef_decoder(path, self._spec, self._directory, sizes)
