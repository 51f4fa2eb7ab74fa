"""Windows whose text ends before their speech does: when they are completed, and with what."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from tests.fakes.model_sizes import TOY, TOY_TOKENS, toy_spec
from tests.fakes.scripted_decoder import TOKENIZER
from whisper_hailo.audio.windows import Window
from whisper_hailo.core.protocols import Limits, StepOutput
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.decoding.search.fallback import DecodedTask
from whisper_hailo.decoding.search.loop import DecodingTask, run_steps
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.transcription import decoder_engine
from whisper_hailo.transcription.decoder_engine import DecoderEngine
from whisper_hailo.transcription.window import Context, WindowRequest

PREFIX = (11, 12, 14)
EOT = TOY_TOKENS.eot
BEGIN = 20
N_VOCAB = BEGIN + 1501
OPTIONS = DecodingOptions(language="en", timestamps=True)


def at(seconds: float) -> int:
    """Return the id of a timestamp."""
    return BEGIN + round(seconds / 0.02)


FIRST = (at(0), 1, at(2))


@dataclass
class Reciter:
    """Says word 1 up to second 2 and ends; made to go on, says word 2 up to second 5.

    Attributes:
        sure: logits by which what it says leads.
        prompts: ids fed in passes of several.
    """

    sure: float = 12.0
    prompts: list[tuple[int, ...]] = field(default_factory=list)
    spec = replace(toy_spec(), dims=replace(TOY, n_vocab=N_VOCAB))
    limits = Limits()
    silence_keys = None

    def batch_size(self, state: tuple[int, ...]) -> int:
        return 1

    def select(self, state: tuple[int, ...], rows: np.ndarray) -> tuple[int, ...]:
        assert rows.tolist() == [0]
        return state

    def rewind(self, state: tuple[int, ...], n_tokens: int) -> tuple[int, ...]:
        return state[:n_tokens]

    def step(
        self,
        tokens: np.ndarray,
        state: tuple[int, ...],
        positions: np.ndarray,
        **_: object,
    ) -> tuple[StepOutput, tuple[int, ...]]:
        history = (*state, *tokens[0].tolist())
        if tokens.shape[1] > 1:
            self.prompts.append(history)
        logits = np.zeros((1, len(positions), N_VOCAB), np.float32)
        for row, position in enumerate(positions):
            for rank, token in enumerate(
                self._says(history[: len(state) + int(position) + 1])
            ):
                logits[0, row, token] = self.sure - rank
        sums = np.log(np.exp(logits.astype(np.float64)).sum(-1)).astype(np.float32)
        return StepOutput(logits, sums), history

    @staticmethod
    def _says(history: tuple[int, ...]) -> tuple[int, ...]:
        said = history[len(PREFIX) :]
        if len(said) < 3:
            return (FIRST[len(said)],)
        if len(said) == 4:  # the time at which speech goes on: it had rather end
            return EOT, 2
        return (at(5),) if len(said) == 5 else (EOT,)


class Loudness:
    """Takes what is loud for speech."""

    def reset(self) -> None:
        """Nothing is remembered."""

    def probability(self, frame: FloatArray) -> float:
        return float(np.abs(frame).max() > 0.2)


@pytest.fixture(autouse=True)
def _by_loudness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder_engine, "make_detector", Loudness)


def audio(*speech: tuple[float, float], seconds: float = 6.0) -> FloatArray:
    """Return samples that are loud from one second to another."""
    samples = np.zeros(round(seconds * SAMPLE_RATE_HZ), np.float32)
    for start_s, end_s in speech:
        samples[round(start_s * SAMPLE_RATE_HZ) : round(end_s * SAMPLE_RATE_HZ)] = 0.5
    return samples


def complete(
    samples: FloatArray,
    decoder: Reciter | None = None,
    options: DecodingOptions = OPTIONS,
    tokens: tuple[int, ...] = FIRST,
    **request: Any,
) -> Decoded:
    decoder = decoder or Reciter()
    engine = DecoderEngine(decoder, TOKENIZER, options, 30.0)  # type: ignore[arg-type]
    window = Window(samples, 0.0, is_sought=request.pop("is_sought", False))
    requests = [WindowRequest(window, Context("en"), **request)]
    decoded = Decoded(tokens, -0.1, 0.0, runaway=False)
    attempt = DecodedTask(decoded, DecodingTask(PREFIX, window.content_s))
    (result,) = run_steps(engine.complete((), requests, [attempt]))
    return result


def test_complete_goes_on_where_speech_does() -> None:
    decoder = Reciter()
    result = complete(audio((0, 2), (3.5, 5)), decoder)
    start = result.tokens[3]
    assert result.tokens == (*FIRST, start, 2, at(5))
    assert at(3.2) <= start <= at(3.4)
    assert decoder.prompts == [(*PREFIX, *FIRST, start)]
    assert result.avg_logprob == pytest.approx((3 * -0.1 + -0.0728) / 6, abs=1e-3)


def test_complete_replaces_the_start_of_an_empty_segment() -> None:
    result = complete(audio((0, 2), (3.5, 5)), tokens=(*FIRST, at(2)))
    assert result.tokens[:3] == FIRST
    assert at(3.2) <= result.tokens[3] <= at(3.4)


@pytest.mark.parametrize(
    ("samples", "changed"),
    [
        (audio((0, 2)), {}),
        (audio((0, 2), (3.5, 4)), {}),
        (audio((0, 2.9), seconds=2.9), {}),
        (audio((0, 2), (3.5, 5)), {"is_sought": True}),
        (audio((0, 2), (3.5, 5)), {"draft": Draft()}),
        (audio((0, 2), (3.5, 5)), {"tokens": (at(0), 1)}),
        (audio((0, 2), (3.5, 5)), {"tokens": ()}),
        (audio((0, 2), (3.5, 5)), {"options": replace(OPTIONS, timestamps=False)}),
        (audio((0, 2), (3.5, 5)), {"decoder": Reciter(sure=1.0)}),
    ],
    ids=[
        "silence",
        "short",
        "tail",
        "sought",
        "live",
        "no-end",
        "no-text",
        "no-times",
        "unsure",
    ],
)
def test_complete_leaves_other_windows_alone(
    samples: FloatArray, changed: dict[str, Any]
) -> None:
    assert complete(samples, **changed).tokens == changed.get("tokens", FIRST)
