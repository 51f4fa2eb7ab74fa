"""One of our graphs beside one that another program made of the same checkpoint."""

from __future__ import annotations

from pathlib import Path

from whisper_hailo.checkpoint.weights import AnyArray
from whisper_hailo.convert.hailo import decoder as hailo_decoder
from whisper_hailo.convert.hailo import encoder as hailo_encoder
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.files import inside
from whisper_hailo.core.hailo import HailoForm
from whisper_hailo.core.names import shown
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FRAMES_PER_SECOND
from whisper_hailo.validate.difference import difference
from whisper_hailo.validate.foreign import Foreign
from whisper_hailo.validate.inner import InnerGraph
from whisper_hailo.validate.ladder import FAILED, PASSED, LayerResult, RungResult
from whisper_hailo.validate.limits import AGAINST
from whisper_hailo.validate.nodes import aligned, compare_by_topology
from whisper_hailo.validate.rungs import LimitOf
from whisper_hailo.validate.runs import cached_encoder, hailo_decoder_run, hailo_encoder_run
from whisper_hailo.validate.stores import Stores
from whisper_hailo.validate.truth import Truth


def compare_foreign(stores: Stores, truth: Truth, foreign: Foreign, limit: LimitOf) -> RungResult:
    """Compare by topology; the rung's difference is that of the outputs.

    Raises:
        ModelError: sizes that none of our graphs has, or a graph that does not run.
    """
    held = limit(AGAINST, foreign.part)
    ours, inputs = _ours(stores, truth, foreign)
    theirs = InnerGraph.from_file(foreign.path, _feeds(truth, foreign))
    nodes = compare_by_topology(ours, theirs, inputs, held)
    output = ours.outputs[0]
    pair = next((n.other for n in nodes.nodes if n.node == _maker(ours, output)), theirs.outputs[0])
    expected = ours.run([output])[output]
    got = theirs.run([pair])[pair]
    if got.size != expected.size:
        raise ModelError(
            f"{shown(foreign.path)} gives {pair} {got.shape}, ours gives {expected.shape}; give a "
            "graph of the same checkpoint and sizes"
        )
    found = difference(aligned(got, expected), expected)
    return RungResult(
        AGAINST,
        foreign.part,
        PASSED if held.holds(found) else FAILED,
        graph=theirs.label,
        reference=ours.label,
        limit=held,
        found=found,
        layers=tuple(
            LayerResult(node.node, node.found.snr_db) for node in nodes.nodes if not node.healed
        ),
        nodes=nodes,
    )


def _ours(stores: Stores, truth: Truth, foreign: Foreign) -> tuple[InnerGraph, dict[str, str]]:
    """Our graph of the same sizes, and which of its inputs is which of theirs."""
    n_frames = truth.mel.shape[2]
    if foreign.part == "encoder":
        form = _form(stores.spec, "encoder", n_frames, None)
        if form is None or foreign.n_frames is None:
            run = cached_encoder(stores.float_encoder)
            return run.inner(truth.mel[0]), {"mel": foreign.audio.name}
        run = hailo_encoder_run(inside(stores.directory, form.file))
        return run.inner(truth.mel[0]), {hailo_encoder.INPUT: foreign.audio.name}
    path = _decoder_path(stores, n_frames, truth.shown.tokens.shape[1])
    inputs = {hailo_decoder.FEATURES: foreign.audio.name}
    if foreign.tokens is not None:
        inputs[hailo_decoder.TOKENS] = foreign.tokens.name
    return hailo_decoder_run(path).inner(truth.shown.tokens[0], truth.features[0]), inputs


def _decoder_path(stores: Stores, n_frames: int, length: int) -> Path:
    form = _form(stores.spec, "decoder", n_frames, length)
    if form is not None:
        return inside(stores.directory, form.file)
    window_s = n_frames // FRAMES_PER_SECOND
    made = stores.hailo(window_s, length)
    form = _form(ModelSpec.load(made), "decoder", window_s * FRAMES_PER_SECOND, length)
    return made / form.file if form is not None else made


def _form(spec: ModelSpec, part: str, n_frames: int, length: int | None) -> HailoForm | None:
    return next(
        (
            form
            for form in spec.hailo
            if form.part == part
            and form.window_s * FRAMES_PER_SECOND == n_frames
            and form.length == length
        ),
        None,
    )


def _feeds(truth: Truth, foreign: Foreign) -> dict[str, AnyArray]:
    if foreign.part == "encoder":
        return {foreign.audio.name: foreign.audio.fed(truth.mel[:1])}
    feeds = {foreign.audio.name: foreign.audio.fed(truth.features[:1])}
    if foreign.tokens is not None:
        feeds[foreign.tokens.name] = foreign.tokens.fed(truth.shown.tokens[:1])
    return feeds


def _maker(graph: InnerGraph, value: str) -> str:
    node = next(node for node in graph.nodes if value in node.output)
    return node.name or value
