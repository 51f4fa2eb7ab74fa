"""The draft model: found, converted and matched to the main model."""

from __future__ import annotations

from dataclasses import dataclass, replace

from whisper_hailo.backends.options import AUTO, EngineOptions
from whisper_hailo.backends.select import SelectedEngine, engine_window_s, select
from whisper_hailo.checkpoint.hub import is_model_directory, parse_name
from whisper_hailo.convert.model_cache import find_model
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.protocols import AnyDecoder, Encoder
from whisper_hailo.core.spec import ENCODER_FILE, ModelSpec
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.decoding.search.draft_decoder import (
    DraftStats,
    draft_cost,
    draft_speed,
    is_promising,
)


@dataclass(frozen=True, slots=True)
class DraftTarget:
    """The main model of a draft model, whose name is as for `Transcriber.from_model`.

    `window_s` is the window of both, in seconds.
    """

    draft_model: str
    spec: ModelSpec
    chosen: SelectedEngine
    engine: EngineOptions
    window_s: float

    def has_same_encoder(self, own: ModelSpec, encoder: Encoder) -> bool:
        """Return whether both models have the same encoder graph, by its hash and engine."""
        files = [of.files.get(ENCODER_FILE) for of in (self.spec, own)]
        main = self.chosen.encoder
        if self.engine.encoder is not None or files[0] is None:
            return False
        return files[0] == files[1] and main.name == encoder.name


@dataclass(frozen=True, slots=True)
class DraftModel:
    """An encoder and decoder that decode ahead of the main model.

    Attributes:
        encoder: `None` where the main model's encoder is the same.
        running: statistics of live audio, which is not one recording.
    """

    name: str
    encoder: Encoder | None
    decoder: AnyDecoder
    running: DraftStats

    @classmethod
    def of_model(
        cls, helped: DraftTarget, convert: ConvertOptions | None, threads: int
    ) -> tuple[DraftModel | None, str]:
        """Find a draft model and describe it; `None` where it promises no gain."""
        name, spec = helped.draft_model, helped.spec
        directory, own = find_model(name, _form(name, spec, convert))
        _expect_one_vocabulary(name, spec, own)
        asked, cost = helped.engine, draft_cost(spec, own)
        if asked.draft_tokens is None and not is_promising(cost):
            return None, (
                f"draft model {own.name} is left out, since ahead of {spec.name} with "
                f"{spec.quantization} weights it promises {draft_speed(cost):.2f} times the speed "
                "(draft-tokens = N in a settings file uses it all the same)"
            )
        backend = "onnx" if asked.encoder_backend == "onnx" else AUTO
        options = EngineOptions(hailo=asked.hailo, encoder_backend=backend)
        chosen = select(directory, own, options, threads, helped.window_s)
        engine_window_s(chosen, own, helped.window_s)
        decoder, encoder = chosen.decoder, chosen.encoder
        shared = helped.has_same_encoder(own, encoder)
        heard = f"hears through encoder {encoder.name}" + (f" of {spec.name}" if shared else "")
        running = DraftStats(cost, asked.draft_tokens)
        draft = cls(own.name, None if shared else encoder, decoder, running)
        return draft, f"draft model {own.name}, {decoder.name}: {heard}"

    def tally(self) -> DraftStats:
        """Return the statistics of a new recording."""
        return DraftStats(self.running.cost, self.running.always)


def why_not_drafted(options: DecodingOptions, batch_size: int) -> str | None:
    """Return why windows are decoded without a draft model; `None` if with one."""
    if options.search.beam_size > 1:
        return f"a beam of {options.search.beam_size} takes no drafts"
    if options.search.temperatures[0] > 0:
        return "tokens that are sampled take no drafts"
    if batch_size > 1:
        return f"{batch_size} windows at a time take no drafts; give --batch-size 1"
    return None


def _form(name: str, spec: ModelSpec, convert: ConvertOptions | None) -> ConvertOptions | None:
    """Return how to convert a checkpoint for drafts.

    Four bits shorten the product with the vocabulary, which is most of a small decoder's step, at
    the cost of few right tokens. The encoder may be the same one as the main model's.
    """
    path = parse_name(name).path
    if path is not None and is_model_directory(path):
        return None
    encoder = spec.encoder_quantization
    return replace(convert or ConvertOptions(), quantize="int4", encoder_quantize=encoder)


def _expect_one_vocabulary(name: str, spec: ModelSpec, own: ModelSpec) -> None:
    """Refuse a model whose ids mean other tokens."""
    got, wanted = own.dims.n_vocab, spec.dims.n_vocab
    ids = [replace(of.tokens, suppress=(), begin_suppress=()) for of in (spec, own)]  # may differ
    if got != wanted or ids[0] != ids[1]:
        raise OptionError(
            f"--draft-model is {name} with {got} tokens, {spec.name} has {wanted}; expected the "
            "same vocabulary: English models (.en) go together, so do those of large-v3 and turbo, "
            "and all others"
        )
