"""What drafts save on decoders of other sizes: the texts of a real stream, forced onto them.

Weights of tiny's and base's sizes that are drawn at random cost what real ones cost, but say
nothing. So the tokens that `micro` found at each partial of a stream are made the best ones of
every step, and the same drafts are verified, or the same tokens decoded one by one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final

import numpy as np

from whisper_hailo.backends.onnx import CachedDecoder
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.errors import WhisperHailoError
from whisper_hailo.core.protocols import AnyDecoder, Padding, StepOutput
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import IntArray
from whisper_hailo.decoding.options import AntiRepetition, DecodingOptions
from whisper_hailo.decoding.search.loop import DecodingLoop, DecodingTask
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo_lab.around import DecoderAround
from whisper_hailo_lab.captions.comparison import EngineCall
from whisper_hailo_lab.repository import MICRO
from whisper_hailo_lab.speed.weights import random_checkpoint

N_POSITIONS: Final = 500
"""Encoder positions of the 10 s window."""

SIZES: Final = ("micro", "tiny", "base")
"""Decoders of these checkpoints' sizes."""


class ForcedDecoder(DecoderAround):
    """A decoder whose best token at every step is given; it costs what it costs.

    Args:
        decoder: open.
        tokens: ids that follow the prefix.
        n_prefix: forced ids before them.
    """

    def __init__(self, decoder: AnyDecoder, tokens: Sequence[int], n_prefix: int) -> None:
        super().__init__(decoder)
        self.tokens, self._n_prefix = tokens, n_prefix

    def step(
        self,
        tokens: IntArray,
        state: Any,  # noqa: ANN401
        positions: IntArray,
        **named: Any,  # noqa: ANN401
    ) -> tuple[StepOutput, Any]:
        """A step whose logits prefer the given token."""
        output, after = super().step(tokens, state, positions, **named)
        logits = output.logits.copy() if not output.logits.flags.writeable else output.logits
        for row, position in enumerate(positions):
            at = state.n_tokens + int(position) + 1 - self._n_prefix
            if 0 <= at < len(self.tokens):
                logits[0, row, self.tokens[at]] = 100.0
        return StepOutput(logits, output.logsumexp, output.alignment), after


@contextmanager
def decoder_of(size: str, quantize: str) -> Iterator[CachedDecoder]:
    """A decoder of a checkpoint's size, open, with micro's tokenizer and alignment heads."""
    with tempfile.TemporaryDirectory() as folder:
        checkpoint, directory = MICRO, Path(folder) / "converted"
        if size != "micro":
            checkpoint = random_checkpoint(size, Path(folder) / size)
            heads = (MICRO / "generation_config.json").read_bytes()
            (checkpoint / "generation_config.json").write_bytes(heads)
        convert_checkpoint(checkpoint, directory, ConvertOptions(quantize, "none"))
        with CachedDecoder(directory, ModelSpec.load(directory), 1) as decoder:
            yield decoder


def replayed(decoder: CachedDecoder, calls: Sequence[EngineCall]) -> dict[str, Any]:
    """All partials of a stream three times over, in turns: drafted, not drafted, anew."""
    special = decoder.spec.tokens
    prefix = (special.sot, special.sot + 1, special.sot + 2, special.sot + 3)
    forced = ForcedDecoder(decoder, (), len(prefix))
    loop = DecodingLoop(forced, special, DecodingOptions(anti_repetition=AntiRepetition()))
    rng = np.random.default_rng(0)
    dims = decoder.spec.dims
    features = rng.normal(0, 1, (1, N_POSITIONS, dims.d_model)).astype(np.float32)
    state = decoder.start(features, (Padding(None),))
    ms: dict[str, list[float]] = {"drafted": [], "not drafted": [], "anew": []}
    passes = dict.fromkeys(ms, 0)
    for call in calls:
        text, draft = call.result.tokens, call.draft
        forced.tokens = [*text, special.eot]
        given_first = {
            "drafted": (draft.tokens, draft.n_fixed),
            "not drafted": (draft.tokens[: draft.n_fixed], draft.n_fixed),
            "anew": ((), 0),
        }
        for name, (given, n_fixed) in given_first.items():
            begin = perf_counter()
            task = DecodingTask(prefix, draft=Draft(given, n_fixed, horizon=N_POSITIONS + 1))
            (decoded,) = loop.run(state, [task])
            ms[name].append(1000 * (perf_counter() - begin))
            passes[name] += decoded.drafted.n_passes if decoded.drafted else 0
            if decoded.tokens != text:
                raise WhisperHailoError(f"forced {text}, decoded {decoded.tokens}")
    count = len(calls)
    mean = {name: float(np.mean(times)) for name, times in ms.items()}
    return {
        "d_model": dims.d_model,
        "layers": dims.n_decoder_layers,
        **{f"passes {name}": round(passes[name] / count, 2) for name in ms},
        **{f"ms {name}": round(mean[name], 2) for name in ms},
        "times less than not drafted": round(mean["not drafted"] / mean["drafted"], 2),
        "times less than anew": round(mean["anew"] / mean["drafted"], 2),
        **costs_of(decoder, state),
    }


def costs_of(decoder: CachedDecoder, state: Any) -> dict[str, float]:  # noqa: ANN401 - its own
    """What a pass costs: of one token, of each further one, and without the vocabulary."""

    def ms(n_tokens: int, n_looks: int) -> float:
        tokens = np.arange(n_tokens, dtype=np.int64)[None]
        looks = np.arange(n_looks, dtype=np.int64)
        times = []
        for _ in range(15):
            begin = perf_counter()
            decoder.step(tokens, state, looks)
            times.append(1000 * (perf_counter() - begin))
        return median(times)

    one, many = ms(1, 1), ms(9, 9)
    return {
        "pass_ms": round(one, 2),
        "further_token_ms": round((many - one) / 8, 2),
        "pass_without_vocabulary_ms": round(ms(1, 0), 2),
    }
