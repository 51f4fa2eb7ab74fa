"""The rungs one by one: each graph runs on the same windows and is compared with the reference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
from whisper_hailo_tools.difference import Difference, DifferenceTally, difference
from whisper_hailo_tools.validate.reference import GraphSources, ReferenceModel, ShownTokens
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

FLOAT, QUANTIZED, HAILO, EMULATED, HEF = "float32", "quantised", "hailo-form", "emulated", "hef"

PASSED, FAILED, NOT_RUN = "passed", "failed", "not run"

_NO_FORMS: Final = "no graph for the Hailo compiler; convert with --hailo"

_CEILING_DB: Final = 180.0
"""Equal arrays have no ratio; what falls from there falls from more than float32 has."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What a difference may be at most: `relative` at most, or `snr_db` at least, the value."""

    measure: str
    value: float

    def holds(self, found: Difference) -> bool:
        """Return whether a difference is within it."""
        if self.measure == "snr_db":
            return found.snr_db >= self.value
        return found.relative <= self.value

    @property
    def text(self) -> str:
        """As a table shows it."""
        if self.measure == "snr_db":
            return f"SNR >= {self.value:g} dB"
        return f"relative <= {self.value:g}"


EXACT: Final = Limit("relative", 1e-4)
"""Float32 graphs that compute the same in another order: SPEC's tolerance for the Hailo forms."""

BLOCKS: Final = {"int8": Limit("snr_db", 25.0), "int4": Limit("snr_db", 10.0)}
"""Weight-only blocks. Random weights, the harsh case, come to 34 and 13 dB."""

CHIP: Final = Limit("snr_db", 15.0)
"""The vendor ships its encoder under the name 15dB; the study's own build came to 9.2 dB."""


def limit_of(kind: str, quantization: str) -> Limit:
    """Return the limit of a form; `quantization` is that of its weights."""
    if kind in (EMULATED, HEF):
        return CHIP
    return BLOCKS.get(quantization, EXACT) if kind == QUANTIZED else EXACT


@dataclass(frozen=True, slots=True)
class Agreement:
    """Places of the transcripts at which the best token is the reference's."""

    same: int
    of: int


@dataclass(frozen=True, slots=True)
class LayerResult:
    """One stage along the data path: name, and signal-to-noise ratio against the reference."""

    name: str
    snr_db: float


@dataclass(frozen=True, slots=True)
class FormResult:
    """One part in one form.

    Attributes:
        status: `passed`, `failed` or `not run`.
        graph: name of what ran, or why nothing did.
    """

    kind: str
    part: str
    status: str
    graph: str
    limit: Limit | None = None
    found: Difference | None = None
    tokens: Agreement | None = None
    layers: tuple[LayerResult, ...] = ()

    @property
    def steepest_fall(self) -> tuple[LayerResult, LayerResult] | None:
        """The two stages between which the ratio falls most; `None` where it never falls."""
        falls = [
            (min(before.snr_db, _CEILING_DB) - after.snr_db, before, after)
            for before, after in pairwise(self.layers)
        ]
        fall, before, after = max(falls, key=lambda one: one[0], default=(0.0, None, None))
        return (before, after) if before and after and fall > 0 else None

    def to_dict(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"rung": self.kind, "part": self.part, "status": self.status}
        if self.found is None or self.limit is None:
            return facts | {"reason": self.graph}
        return facts | {
            "graph": self.graph,
            "limit": self.limit.text,
            "difference": self.found.to_dict(),
            "tokens": None if self.tokens is None else [self.tokens.same, self.tokens.of],
            "layers": [
                {"name": one.name, "snr_db": one.snr_db if np.isfinite(one.snr_db) else None}
                for one in self.layers
            ],
        }


def try_encoder(
    kind: str, run: EncoderRun, reference: ReferenceModel, judge: DecoderRun, limit: Limit
) -> FormResult:
    """Run an encoder; `judge` is the decoder that its tokens are compared by."""
    shown = reference.shown
    features = run.encode(reference.mel)
    expected = judge.logits(shown.tokens, reference.features)
    tokens = agreement(judge.logits(shown.tokens, features), expected, shown)
    found = difference(features, reference.features)
    status = PASSED if limit.holds(found) else FAILED
    stages = reference.source.encoder_stages(reference.mel[:1])
    layers = tuple(_compare_layers(run, stages, reference.mel[0]))
    return FormResult(kind, "encoder", status, run.graph, limit, found, tokens, layers)


def try_decoder(kind: str, run: DecoderRun, reference: ReferenceModel, limit: Limit) -> FormResult:
    """Run a decoder on the reference's features."""
    shown, features = reference.shown, reference.features
    expected = reference.logits(run.pad_to)
    got = run.logits(shown.tokens, features)
    tally = DifferenceTally()
    for row, n_known in enumerate(shown.n_known):
        tally.add(got[row, :n_known], expected[row, :n_known])
    found = tally.difference()
    tokens = agreement(got, expected, shown)
    status = PASSED if limit.holds(found) else FAILED
    stages = reference.source.decoder_stages(shown.tokens[:1], features[:1], run.pad_to)
    layers = tuple(_compare_layers(run, stages, shown.tokens[0], features[0]))
    return FormResult(kind, "decoder", status, run.graph, limit, found, tokens, layers)


def agreement(got: AnyArray, expected: AnyArray, shown: ShownTokens) -> Agreement:
    """Count places where both choose the same token, given the same ones before it."""
    places = list(shown.deciding())
    same = sum(int(got[place].argmax()) == int(expected[place].argmax()) for place in places)
    return Agreement(same, len(places))


def _compare_layers(
    run: EncoderRun | DecoderRun, stages: Iterable[tuple[str, AnyArray]], *fed: AnyArray
) -> Iterator[LayerResult]:
    """Yield the ratio of a graph, fed with one row, at each stage of the reference."""
    references = dict(stages) if run.inner is not None else {}
    for stage, got in stage_values(run, references, *fed):
        expected = references[stage]
        if np.squeeze(got).shape == np.squeeze(expected).shape:
            yield LayerResult(stage, difference(got.reshape(expected.shape), expected).snr_db)


class FormChecks:
    """All rungs of one model directory."""

    def __init__(self, sources: GraphSources, reference: ReferenceModel) -> None:
        self._directory = sources.directory
        self._spec = sources.spec
        self._sources = sources
        self._reference = reference

    def check_all(self) -> Iterator[FormResult]:
        """Check every form, encoder first, then decoder."""
        rungs = {
            FLOAT: self._float,
            QUANTIZED: self._quantized,
            HAILO: self._hailo,
            EMULATED: self._emulated,
            HEF: self._hef,
        }
        for part in PARTS:
            for kind, find in rungs.items():
                run = find(part)
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
        return cached_encoder(self._sources.float_encoder) if part == "encoder" else self._decoder

    def _quantized(self, part: str) -> EncoderRun | DecoderRun | str:
        if self._quantization(part) == "none":
            option = "--encoder-quantize" if part == "encoder" else "--quantize"
            return f"float32 here; convert with {option} to have another one judged"
        run = cached_encoder if part == "encoder" else cached_decoder
        return run(self._directory)

    def _hailo(self, part: str) -> EncoderRun | DecoderRun | str:
        if (form := self._form(part)) is None:
            return _NO_FORMS
        run = hailo_encoder_run if part == "encoder" else hailo_decoder_run
        return run(resolve_within(self._directory, form.file))

    def _emulated(self, part: str) -> EncoderRun | DecoderRun | str:
        if (form := self._form(part)) is None:
            return _NO_FORMS
        path = resolve_within(self._directory, form.emulated_file)
        if not path.is_file():
            return f"no {path.name}; whisper-hailo emulate --part {part} makes it"
        run = hailo_encoder_run if part == "encoder" else hailo_decoder_run
        return run(path, f"{path.name} ({emulated_plan(path, self._spec, form)})")

    def _hef(self, part: str) -> EncoderRun | DecoderRun | str:
        """Return the HEF that this machine's chip takes, if it has the sizes that are compared."""
        arch, what = find_npu()
        if arch is None:
            return f"{what}; validate on the device"
        path = matching_hef(self._directory, self._spec, arch, part)
        if path is None:
            return f"no HEF of this model for {what}; whisper-hailo compile makes one"
        reference = self._reference
        if part == "encoder":
            return hef_encoder(path, self._spec, reference.mel.shape[2])
        sizes = reference.features.shape[1], reference.shown.tokens.shape[1]
        return hef_decoder(path, self._spec, self._directory, sizes)
