"""What drafts save on decoders of other sizes: the texts of a real stream, forced onto them.

Weights of tiny's and base's sizes that are drawn at random cost what real ones cost, but say
nothing. So the tokens that `micro` found at each partial of a stream are made the best ones of
every step, and the same drafts are verified, or the same tokens decoded one by one.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final

import numpy as np
from tests.checkpoints import config_of, random_arrays, write_checkpoint

import whisper_hailo
from whisper_hailo.backends.onnx import CachedDecoder
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.dimensions import Dimensions
from whisper_hailo.core.protocols import AnyDecoder, Limits, Padding, StepOutput
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import IntArray
from whisper_hailo.decoding.options import Cures, DecodingOptions
from whisper_hailo.decoding.search.draft import Draft
from whisper_hailo.decoding.search.loop import DecodingLoop, Task
from whisper_hailo_lab.captions.comparison import Call

MICRO: Final = Path(whisper_hailo.__file__).parent / "assets" / "micro"

N_POSITIONS: Final = 500
"""Encoder positions of the 10 s window."""

SIZES: Final = {
    "micro": Dimensions(80, 1500, 128, 1, 2, 2, 2, 448, 51865),
    "tiny": Dimensions(80, 1500, 384, 1, 6, 4, 6, 448, 51865),
    "base": Dimensions(80, 1500, 512, 1, 8, 6, 8, 448, 51865),
}
"""Decoders of these checkpoints; their encoders play no part here and have one layer."""


@dataclass
class Forced:
    """A decoder whose best token at every step is given; it costs what it costs.

    Attributes:
        decoder: open.
        tokens: ids that follow the prefix.
        n_prefix: forced ids before them.
    """

    decoder: AnyDecoder
    tokens: Sequence[int] = ()
    n_prefix: int = 0

    @property
    def spec(self) -> ModelSpec:
        return self.decoder.spec

    @property
    def limits(self) -> Limits:
        return self.decoder.limits

    def step(
        self,
        tokens: IntArray,
        state: Any,  # noqa: ANN401 - the decoder's own
        positions: IntArray,
        **named: Any,  # noqa: ANN401 - passed on
    ) -> tuple[StepOutput, Any]:
        output, after = self.decoder.step(tokens, state, positions, **named)
        logits = output.logits.copy() if not output.logits.flags.writeable else output.logits
        for row, position in enumerate(positions):
            at = state.n_tokens + int(position) + 1 - self.n_prefix
            if 0 <= at < len(self.tokens):
                logits[0, row, self.tokens[at]] = 100.0
        return StepOutput(logits, output.logsumexp, output.alignment), after

    def batch_size(self, state: Any) -> int:  # noqa: ANN401 - the decoder's own
        return self.decoder.batch_size(state)

    def rewind(self, state: Any, n_tokens: int) -> Any:  # noqa: ANN401 - the decoder's own
        return self.decoder.rewind(state, n_tokens)


@contextmanager
def decoder_of(size: str, quantize: str) -> Iterator[CachedDecoder]:
    """A decoder of a checkpoint's sizes, open, with random weights and micro's tokenizer."""
    dims = SIZES[size]
    ffn = 4 * dims.d_model
    config = json.loads((MICRO / "config.json").read_text(encoding="utf-8"))
    sizes = config_of(dims, ffn)
    config |= {name: sizes[name] for name in sizes.keys() & config.keys() if "token" not in name}
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = write_checkpoint(Path(folder) / size, random_arrays(dims, ffn), config=config)
        for name in ("tokenizer.json", "generation_config.json"):
            (checkpoint / name).write_bytes((MICRO / name).read_bytes())
        directory = Path(folder) / "converted"
        convert_checkpoint(checkpoint, directory, ConvertOptions(quantize=quantize))
        with CachedDecoder(directory, ModelSpec.load(directory), 1) as decoder:
            yield decoder


def replayed(decoder: CachedDecoder, calls: Sequence[Call]) -> dict[str, Any]:
    """All partials of a stream three times over, in turns: drafted, not drafted, anew."""
    forced = Forced(decoder)
    special = decoder.spec.tokens
    loop = DecodingLoop(forced, special, DecodingOptions(cures=Cures()))  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    dims = decoder.spec.dims
    features = rng.normal(0, 1, (1, N_POSITIONS, dims.d_model)).astype(np.float32)
    state = decoder.start(features, (Padding(None),))
    prefix = (special.sot, special.sot + 1, special.sot + 2, special.sot + 3)
    forced.n_prefix = len(prefix)
    ms: dict[str, list[float]] = {"drafted": [], "not drafted": [], "anew": []}
    passes = dict.fromkeys(ms, 0)
    for call in calls:
        text, draft = call.heard.tokens, call.draft
        forced.tokens = [*text, special.eot]
        ways = {
            "drafted": (draft.tokens, draft.n_fixed),
            "not drafted": (draft.tokens[: draft.n_fixed], draft.n_fixed),
            "anew": ((), 0),
        }
        for name, (given, n_fixed) in ways.items():
            begin = perf_counter()
            task = Task(prefix, draft=Draft(given, n_fixed, horizon=N_POSITIONS + 1))
            (decoded,) = loop.run(state, [task])
            ms[name].append(1000 * (perf_counter() - begin))
            passes[name] += decoded.drafted.n_passes if decoded.drafted else 0
            if decoded.tokens != text:
                raise SystemExit(f"forced {text}, decoded {decoded.tokens}")
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
