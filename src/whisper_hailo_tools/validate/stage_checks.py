"""The rungs one by one: each graph runs on the same windows and is compared with the reference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from whisper_hailo.backends.fixed import emulated_plan
from whisper_hailo.backends.onnx_file import read_graph_bytes
from whisper_hailo.checkpoint.weights import AnyArray
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.files import resolve_within
from whisper_hailo.core.spec import PARTS, HailoForm, ModelSpec
from whisper_hailo_tools.difference import Difference, DifferenceTally, difference
from whisper_hailo_tools.emulate.make import generated_script, load_form
from whisper_hailo_tools.emulate.network import read_network
from whisper_hailo_tools.emulate.rewrite import PrecisionPlan, emulated, plan_of_script, preset
from whisper_hailo_tools.emulate.statistics import collect
from whisper_hailo_tools.options import EMULATED, FLOAT, HAILO, HEF, QUANTIZED, SCRIPT, Limit
from whisper_hailo_tools.validate.reference import GraphSources, ReferenceModel
from whisper_hailo_tools.validate.runs import (
    DecoderRun,
    EncoderRun,
    Feeds,
    InnerGraph,
    NamedDecoder,
    NamedEncoder,
    cached_decoder,
    cached_encoder,
    find_hef,
    hailo_decoder_run,
    hailo_encoder_run,
    hef_decoder,
    hef_encoder,
)
from whisper_hailo_tools.validate.test_inputs import ShownTokens

PASSED, FAILED, NOT_RUN = "passed", "failed", "not run"

_CEILING_DB: Final = 180.0
"""Equal arrays have no ratio; what falls from there falls from more than float32 has."""


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
    """

    kind: str
    part: str
    status: str
    graph: str
    reference: str = ""
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
        if self.status == NOT_RUN:
            return facts | {"reason": self.graph}
        return facts | {
            "graph": self.graph,
            "reference": self.reference,
            "limit": None if self.limit is None else self.limit.text,
            "difference": None if self.found is None else self.found.to_dict(),
            "tokens": None if self.tokens is None else [self.tokens.same, self.tokens.of],
            "layers": [
                {"name": layer.name, "snr_db": _finite(layer.snr_db)} for layer in self.layers
            ],
        }


def not_run(kind: str, part: str, why: str) -> FormResult:
    """Return the result of a form that cannot be tried here, and why."""
    return FormResult(kind, part, NOT_RUN, why)


def try_encoder(
    kind: str, run: NamedEncoder, reference: ReferenceModel, judge: NamedDecoder, limit: Limit
) -> FormResult:
    """Run an encoder; `judge` is the decoder that its tokens are compared by."""
    features = run.encode(reference.mel)
    found = difference(features, reference.features)
    expected = judge.logits(reference.shown.tokens, reference.features)
    got = judge.logits(reference.shown.tokens, features)
    return FormResult(
        kind,
        "encoder",
        PASSED if limit.holds(found) else FAILED,
        graph=run.graph,
        reference=reference.name,
        limit=limit,
        found=found,
        tokens=agreement(got, expected, reference.shown),
    )


def try_decoder(
    kind: str, run: NamedDecoder, reference: ReferenceModel, limit: Limit
) -> FormResult:
    """Run a decoder on the reference's features."""
    expected = reference.logits(run.pad_to)
    got = run.logits(reference.shown.tokens, reference.features)
    tally = DifferenceTally()
    for row, n_known in enumerate(reference.shown.n_known):
        tally.add(got[row, :n_known], expected[row, :n_known])
    found = tally.difference()
    return FormResult(
        kind,
        "decoder",
        PASSED if limit.holds(found) else FAILED,
        graph=run.graph,
        reference=reference.name,
        limit=limit,
        found=found,
        tokens=agreement(got, expected, reference.shown),
    )


def encoder_layers(run: EncoderRun, reference: ReferenceModel) -> tuple[LayerResult, ...]:
    """Return an encoder graph along its data path, first window."""
    return tuple(_layers(run.inner(reference.mel[0]), reference.encoder_stages(), run.names))


def decoder_layers(run: DecoderRun, reference: ReferenceModel) -> tuple[LayerResult, ...]:
    """Return a decoder graph along its data path, first window."""
    inner = run.inner(reference.shown.tokens[0], reference.features[0])
    return tuple(_layers(inner, reference.decoder_stages(run.pad_to), run.names))


def agreement(got: AnyArray, expected: AnyArray, shown: ShownTokens) -> Agreement:
    """Count places where both choose the same token, given the same ones before it."""
    places: Sequence[tuple[int, int]] = list(shown.deciding())
    same = sum(int(got[place].argmax()) == int(expected[place].argmax()) for place in places)
    return Agreement(same, len(places))


def _layers(
    graph: InnerGraph, stages: Iterable[tuple[str, AnyArray]], names: dict[str, str]
) -> Iterator[LayerResult]:
    """Signal-to-noise ratio of a graph at each stage of the reference, first window."""
    references = dict(stages)
    by_name = {names.get(stage, stage): stage for stage in references}
    for values in graph.values(list(by_name)):
        for name, got in values.items():
            expected = references[by_name[name]]
            if _without_ones(got.shape) == _without_ones(expected.shape):
                found = difference(got.reshape(expected.shape), expected)
                yield LayerResult(by_name[name], found.snr_db)


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(axis for axis in shape if axis != 1)


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


ARCH = "hailo8l"
"""Chip whose model script is emulated; the scripts of all three differ in few layers."""

FALLBACK = "adds16"
"""Plan for networks that no recipe of the compiler's scripts is for."""


@dataclass(frozen=True, slots=True)
class EmulatedGraph:
    """An emulated graph."""

    label: str
    encoded: bytes


def emulated_graph(
    directory: Path, spec: ModelSpec, form: HailoForm, graph: InnerGraph, feeds: list[Feeds]
) -> EmulatedGraph:
    """Return the graph with the chip's arithmetic.

    `feeds` are inputs of the form's graph for each window that the chip's scales are chosen by.
    """
    path = resolve_within(directory, form.emulated_file)
    if path.is_file():
        plan_name = emulated_plan(path, spec, form)
        return EmulatedGraph(f"{path.name} ({plan_name})", read_graph_bytes(path))
    model = load_form(resolve_within(directory, form.file))
    network = read_network(model, form.start_nodes, form.end_nodes)
    try:
        name, text = SCRIPT, generated_script(spec, form, ARCH, network)
    except ModelError:
        name, text = FALLBACK, preset(FALLBACK)
    plan: PrecisionPlan = plan_of_script(name, text, network, form.start_nodes, form.end_nodes)
    statistics = collect(model, network, _entries(network.entries, graph, feeds))
    result = emulated(model, plan, statistics)
    label = f"{Path(form.file).name} emulated ({name})"
    return EmulatedGraph(label, result.SerializeToString(deterministic=True))


def _entries(entries: tuple[str, ...], graph: InnerGraph, feeds: list[Feeds]) -> Iterator[Feeds]:
    """Yield what enters the chip for each window: graph inputs, and values that the host makes."""
    made = [name for name in entries if name not in graph.feeds]
    runs = graph.run_each(made, feeds) if made else [{} for _ in feeds]
    for one, run in zip(feeds, runs, strict=True):
        yield {name: run[name] if name in run else one[name] for name in entries}


class LimitOf(Protocol):
    """Gives what a part is held to in a form."""

    def __call__(self, kind: str, part: str, quantization: str = "none") -> Limit: ...


class FormChecks:
    """All rungs of one model directory."""

    def __init__(self, sources: GraphSources, reference: ReferenceModel, limit: LimitOf) -> None:
        self._sources = sources
        self._spec = sources.spec
        self._reference = reference
        self._limit = limit

    def check_all(self) -> Iterator[FormResult]:
        """Check every form, encoder first, then decoder."""
        for part in PARTS:
            yield self._float(part)
            yield self._quantized(part)
            yield self._hailo(part)
            yield self._emulated(part)
            yield self._hef(part)

    @cached_property
    def _encoder(self) -> EncoderRun:
        return cached_encoder(self._sources.float_encoder)

    @cached_property
    def _decoder(self) -> DecoderRun:
        return cached_decoder(self._sources.float_decoder)

    def _try(self, kind: str, run: EncoderRun | DecoderRun, limit: Limit) -> FormResult:
        if isinstance(run, EncoderRun):
            found = try_encoder(kind, run, self._reference, self._decoder, limit)
            return replace(found, layers=encoder_layers(run, self._reference))
        found = try_decoder(kind, run, self._reference, limit)
        return replace(found, layers=decoder_layers(run, self._reference))

    def _float(self, part: str) -> FormResult:
        if self._sources.checkpoint is None:
            return not_run(FLOAT, part, "the reference here; --checkpoint gives a higher one")
        run = self._encoder if part == "encoder" else self._decoder
        return self._try(FLOAT, run, self._limit(FLOAT, part))

    def _quantized(self, part: str) -> FormResult:
        of_encoder, directory = part == "encoder", self._sources.directory
        spec = self._spec
        quantization = spec.encoder_quantization if of_encoder else spec.quantization
        if quantization == "none":
            option = "--encoder-quantize" if of_encoder else "--quantize"
            why = f"float32 here; convert with {option} to have another one judged"
            return not_run(QUANTIZED, part, why)
        run = cached_encoder(directory) if of_encoder else cached_decoder(directory)
        return self._try(QUANTIZED, run, self._limit(QUANTIZED, part, quantization))

    def _form_run(self, part: str) -> tuple[HailoForm, EncoderRun | DecoderRun] | None:
        """Return the part's form for the compiler and what runs it, if there is one."""
        form = next((form for form in self._spec.hailo if form.part == part), None)
        if form is None:
            return None
        path = resolve_within(self._sources.directory, form.file)
        return form, hailo_encoder_run(path) if part == "encoder" else hailo_decoder_run(path)

    def _hailo(self, part: str) -> FormResult:
        if (found := self._form_run(part)) is None:
            return not_run(HAILO, part, _NO_FORMS)
        return self._try(HAILO, found[1], self._limit(HAILO, part))

    def _emulated(self, part: str) -> FormResult:
        if (found := self._form_run(part)) is None:
            return not_run(EMULATED, part, _NO_FORMS)
        form, run = found
        reference, mel = self._reference, self._reference.inputs.calibration.mel
        if isinstance(run, EncoderRun):
            first = run.inner(reference.mel[0])
            feeds = [run.feeds(window) for window in mel]
        else:
            first = run.inner(reference.shown.tokens[0], reference.features[0])
            tokens = reference.inputs.decode(mel).tokens
            rows = zip(tokens, self._encoder.encode(mel), strict=True)
            feeds = [run.feeds(*row) for row in rows]
        made = emulated_graph(self._sources.directory, self._spec, form, first, feeds)
        make = hailo_encoder_run if part == "encoder" else hailo_decoder_run
        chip = make(resolve_within(self._sources.directory, form.file), made.encoded, made.label)
        return self._try(EMULATED, chip, self._limit(EMULATED, part))

    def _hef(self, part: str) -> FormResult:
        directory, spec, reference = self._sources.directory, self._spec, self._reference
        path = find_hef(directory, spec, part)
        if isinstance(path, str):
            return not_run(HEF, part, path)
        limit = self._limit(HEF, part)
        if part == "encoder":
            encoder = hef_encoder(path, spec, reference.mel.shape[2])
            if isinstance(encoder, str):
                return not_run(HEF, part, encoder)
            return try_encoder(HEF, encoder, reference, self._decoder, limit)
        sizes = reference.features.shape[1], reference.shown.tokens.shape[1]
        decoder = hef_decoder(path, spec, directory, sizes)
        if isinstance(decoder, str):
            return not_run(HEF, part, decoder)
        return try_decoder(HEF, decoder, reference, limit)


_NO_FORMS = "no graph for the Hailo compiler; convert with --hailo"
