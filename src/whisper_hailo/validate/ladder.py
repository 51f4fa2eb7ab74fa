"""The parity ladder: each rung's graphs run on the same windows and compared with the reference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from whisper_hailo.checkpoint.weights import AnyArray
from whisper_hailo.validate.difference import Difference, DifferenceTally, difference
from whisper_hailo.validate.inner import InnerGraph
from whisper_hailo.validate.limits import Limit
from whisper_hailo.validate.material import ShownTokens
from whisper_hailo.validate.nodes import NodeComparison, aligned
from whisper_hailo.validate.runs import DecoderRun, EncoderRun, NamedDecoder, NamedEncoder
from whisper_hailo.validate.truth import Truth

PASSED, FAILED, NOT_RUN = "passed", "failed", "not run"


@dataclass(frozen=True, slots=True)
class Agreement:
    """Places of the transcripts at which the best token is the reference's.

    Attributes:
        same: how many are.
        of: how many there are.
    """

    same: int
    of: int


@dataclass(frozen=True, slots=True)
class LayerResult:
    """One stage along the data path: name, and signal-to-noise ratio against the reference."""

    name: str
    snr_db: float


@dataclass(frozen=True, slots=True)
class RungResult:
    """One part at one rung.

    Attributes:
        rung: name of the rung.
        part: `encoder` or `decoder`.
        status: `passed`, `failed` or `not run`.
        graph: what was run; why not, where it was not.
        reference: what it was compared with.
        limit: what it was held to.
        found: how far it is from the reference.
        tokens: agreement of the tokens on the audio.
        layers: along the data path.
        nodes: against the graph of an earlier rung, node by node.
    """

    rung: str
    part: str
    status: str
    graph: str
    reference: str = ""
    limit: Limit | None = None
    found: Difference | None = None
    tokens: Agreement | None = None
    layers: tuple[LayerResult, ...] = ()
    nodes: NodeComparison | None = None

    def to_dict(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"rung": self.rung, "part": self.part, "status": self.status}
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
            "nodes": None if self.nodes is None else self.nodes.to_dict(),
        }


def not_run(rung: str, part: str, why: str) -> RungResult:
    """A rung that cannot be tried here, and why."""
    return RungResult(rung, part, NOT_RUN, why)


def try_encoder(
    rung: str, run: NamedEncoder, truth: Truth, judge: NamedDecoder, limit: Limit
) -> RungResult:
    """Run an encoder; `judge` is the decoder that its tokens are compared by."""
    features = run.encode(truth.mel)
    found = difference(features, truth.features)
    expected = judge.logits(truth.shown.tokens, truth.features)
    got = judge.logits(truth.shown.tokens, features)
    return RungResult(
        rung,
        "encoder",
        PASSED if limit.holds(found) else FAILED,
        graph=run.graph,
        reference=truth.name,
        limit=limit,
        found=found,
        tokens=agreement(got, expected, truth.shown),
    )


def try_decoder(rung: str, run: NamedDecoder, truth: Truth, limit: Limit) -> RungResult:
    """Run a decoder on the reference's features."""
    expected = truth.logits(run.pad_to)
    got = run.logits(truth.shown.tokens, truth.features)
    tally = DifferenceTally()
    for row, n_known in enumerate(truth.shown.n_known):
        tally.add(got[row, :n_known], expected[row, :n_known])
    found = tally.difference()
    return RungResult(
        rung,
        "decoder",
        PASSED if limit.holds(found) else FAILED,
        graph=run.graph,
        reference=truth.name,
        limit=limit,
        found=found,
        tokens=agreement(got, expected, truth.shown),
    )


def encoder_layers(run: EncoderRun, truth: Truth) -> tuple[LayerResult, ...]:
    """An encoder graph along its data path, first window."""
    return tuple(_layers(run.inner(truth.mel[0]), truth.encoder_stages(), run.names))


def decoder_layers(run: DecoderRun, truth: Truth) -> tuple[LayerResult, ...]:
    """A decoder graph along its data path, first window."""
    inner = run.inner(truth.shown.tokens[0], truth.features[0])
    return tuple(_layers(inner, truth.decoder_stages(run.pad_to), run.names))


def agreement(got: AnyArray, expected: AnyArray, shown: ShownTokens) -> Agreement:
    """Where both choose the same token, given the same ones before it."""
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
            if got.size == expected.size:
                found = difference(aligned(got, expected), expected)
                yield LayerResult(by_name[name], found.snr_db)


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
