"""The rungs one by one: which graph, against which earlier one, and why not where it cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Protocol

from whisper_hailo.convert.hailo import decoder as hailo_decoder
from whisper_hailo.convert.hailo import encoder as hailo_encoder
from whisper_hailo.core.files import inside
from whisper_hailo.core.hailo import HailoForm
from whisper_hailo.validate import ladder
from whisper_hailo.validate.emulated import emulated_graph
from whisper_hailo.validate.hef import find_hef, hef_decoder, hef_encoder
from whisper_hailo.validate.inner import InnerGraph
from whisper_hailo.validate.ladder import RungResult, not_run
from whisper_hailo.validate.limits import (
    EMULATED,
    EXACT,
    FLOAT,
    HAILO,
    HEF,
    QUANTIZED,
    Limit,
)
from whisper_hailo.validate.nodes import (
    compare_by_name,
    compare_by_topology,
)
from whisper_hailo.validate.runs import (
    DecoderRun,
    EncoderRun,
    cached_decoder,
    cached_encoder,
    hailo_decoder_run,
    hailo_encoder_run,
)
from whisper_hailo.validate.stores import Stores
from whisper_hailo.validate.truth import Truth

FEATURES, LOGITS = "audio_features", "logits"
"""What the cached graphs call their results."""


class LimitOf(Protocol):
    """Gives what a part is held to at a rung."""

    def __call__(self, rung: str, part: str, quantization: str = "none") -> Limit: ...


class Rungs:
    """All rungs of one model directory.

    Args:
        stores: where their graphs lie.
        truth: what they are compared with.
        limit: what they are held to.
    """

    def __init__(self, stores: Stores, truth: Truth, limit: LimitOf) -> None:
        self._stores = stores
        self._spec = stores.spec
        self._truth = truth
        self._limit = limit

    def climb(self) -> Iterator[RungResult]:
        """Every rung, encoder first, then decoder."""
        yield self._float("encoder")
        yield self._quantized_encoder()
        yield self._hailo_encoder()
        yield self._emulated_encoder()
        yield self._hef_encoder()
        yield self._float("decoder")
        yield self._quantized_decoder()
        yield self._hailo_decoder()
        yield self._emulated_decoder()
        yield self._hef_decoder()

    @cached_property
    def _encoder(self) -> EncoderRun:
        return cached_encoder(self._stores.float_encoder)

    @cached_property
    def _decoder(self) -> DecoderRun:
        return cached_decoder(self._stores.float_decoder)

    def _try_encoder(self, rung: str, run: EncoderRun, limit: Limit) -> RungResult:
        found = ladder.try_encoder(rung, run, self._truth, self._decoder, limit)
        return replace(found, layers=ladder.encoder_layers(run, self._truth))

    def _try_decoder(self, rung: str, run: DecoderRun, limit: Limit) -> RungResult:
        found = ladder.try_decoder(rung, run, self._truth, limit)
        return replace(found, layers=ladder.decoder_layers(run, self._truth))

    def _into(self, run: EncoderRun | DecoderRun) -> InnerGraph:
        """A graph, fed with the first window."""
        if isinstance(run, EncoderRun):
            return run.inner(self._truth.mel[0])
        return run.inner(self._truth.shown.tokens[0], self._truth.features[0])

    def _float(self, part: str) -> RungResult:
        if self._stores.checkpoint is None:
            return not_run(FLOAT, part, "the reference here; --checkpoint gives a higher one")
        limit = self._limit(FLOAT, part)
        if part == "encoder":
            return self._try_encoder(FLOAT, self._encoder, limit)
        return self._try_decoder(FLOAT, self._decoder, limit)

    def _quantized_encoder(self) -> RungResult:
        quantization = self._spec.encoder_quantization
        if quantization == "none":
            return not_run(QUANTIZED, "encoder", _NO_QUANTIZED.format("--encoder-quantize"))
        limit = self._limit(QUANTIZED, "encoder", quantization)
        run = cached_encoder(self._stores.directory)
        found = self._try_encoder(QUANTIZED, run, limit)
        nodes = compare_by_name(self._into(self._encoder), self._into(run), FEATURES, limit)
        return replace(found, nodes=nodes)

    def _quantized_decoder(self) -> RungResult:
        quantization = self._spec.quantization
        if quantization == "none":
            return not_run(QUANTIZED, "decoder", _NO_QUANTIZED.format("--quantize"))
        limit = self._limit(QUANTIZED, "decoder", quantization)
        run = cached_decoder(self._stores.directory)
        found = self._try_decoder(QUANTIZED, run, limit)
        nodes = compare_by_name(self._into(self._decoder), self._into(run), LOGITS, limit)
        return replace(found, nodes=nodes)

    def _hailo_encoder(self) -> RungResult:
        form = self._form("encoder")
        if form is None:
            return not_run(HAILO, "encoder", _NO_FORMS)
        run = hailo_encoder_run(inside(self._stores.directory, form.file))
        found = self._try_encoder(HAILO, run, self._limit(HAILO, "encoder"))
        inputs = {hailo_encoder.INPUT: "mel"}
        nodes = compare_by_topology(self._into(run), self._into(self._encoder), inputs, EXACT)
        return replace(found, nodes=nodes)

    def _hailo_decoder(self) -> RungResult:
        form = self._form("decoder")
        if form is None:
            return not_run(HAILO, "decoder", _NO_FORMS)
        run = hailo_decoder_run(inside(self._stores.directory, form.file))
        found = self._try_decoder(HAILO, run, self._limit(HAILO, "decoder"))
        unpadded = cached_decoder(self._stores.float_decoder, pad_to=0)
        inputs = {hailo_decoder.TOKENS: "tokens"}
        nodes = compare_by_topology(self._into(run), self._into(unpadded), inputs, EXACT)
        return replace(found, nodes=nodes)

    def _form(self, part: str) -> HailoForm | None:
        return next((form for form in self._spec.hailo if form.part == part), None)

    def _emulated_encoder(self) -> RungResult:
        form = self._form("encoder")
        if form is None:
            return not_run(EMULATED, "encoder", _NO_FORMS)
        path = inside(self._stores.directory, form.file)
        run = hailo_encoder_run(path)
        feeds = [run.feeds(window) for window in self._truth.material.calibration.mel]
        made = emulated_graph(self._stores.directory, self._spec, form, self._into(run), feeds)
        chip = hailo_encoder_run(path, made.encoded, made.label)
        limit = self._limit(EMULATED, "encoder")
        found = self._try_encoder(EMULATED, chip, limit)
        output = hailo_encoder.OUTPUT
        nodes = compare_by_name(self._into(run), self._into(chip), output, limit)
        return replace(found, nodes=nodes)

    def _emulated_decoder(self) -> RungResult:
        form = self._form("decoder")
        if form is None:
            return not_run(EMULATED, "decoder", _NO_FORMS)
        path = inside(self._stores.directory, form.file)
        run = hailo_decoder_run(path)
        mel = self._truth.material.calibration.mel
        rows = zip(self._truth.material.decode(mel).tokens, self._encoder.encode(mel), strict=True)
        feeds = [run.feeds(*row) for row in rows]
        made = emulated_graph(self._stores.directory, self._spec, form, self._into(run), feeds)
        chip = hailo_decoder_run(path, made.encoded, made.label)
        limit = self._limit(EMULATED, "decoder")
        found = self._try_decoder(EMULATED, chip, limit)
        output = hailo_decoder.LOGITS
        nodes = compare_by_name(self._into(run), self._into(chip), output, limit)
        return replace(found, nodes=nodes)

    def _hef_encoder(self) -> RungResult:
        path = find_hef(self._stores.directory, self._spec, "encoder")
        if isinstance(path, str):
            return not_run(HEF, "encoder", path)
        run = hef_encoder(path, self._spec, self._truth.mel.shape[2])
        if isinstance(run, str):
            return not_run(HEF, "encoder", run)
        limit = self._limit(HEF, "encoder")
        return ladder.try_encoder(HEF, run, self._truth, self._decoder, limit)

    def _hef_decoder(self) -> RungResult:
        path = find_hef(self._stores.directory, self._spec, "decoder")
        if isinstance(path, str):
            return not_run(HEF, "decoder", path)
        sizes = self._truth.features.shape[1], self._truth.shown.tokens.shape[1]
        run = hef_decoder(path, self._spec, self._stores.directory, sizes)
        if isinstance(run, str):
            return not_run(HEF, "decoder", run)
        return ladder.try_decoder(HEF, run, self._truth, self._limit(HEF, "decoder"))


_NO_FORMS = "no graph for the Hailo compiler; convert with --hailo"
_NO_QUANTIZED = "float32 here; convert with {} to have another one judged"
