"""A decoder's windows in a batch: each row has its own audio, language, prompt and words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.unit.shapes import TOY, TOY_TOKENS, toy_spec
from tests.unit.transcription.made_up_words import TOKENIZER, Words, window
from whisper_hailo.audio.windows import Window
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.protocols import Limits, Padding, StepOutput
from whisper_hailo.core.timing import StageClock
from whisper_hailo.core.types import FloatArray, IntArray
from whisper_hailo.decoding.options import (
    AntiRepetition,
    DecodingOptions,
    PromptOptions,
    SearchOptions,
    WordOptions,
)
from whisper_hailo.decoding.search.loop import run_steps
from whisper_hailo.text.tokenizer import Tokenizer
from whisper_hailo.transcription.decoder_engine import DecoderEngine
from whisper_hailo.transcription.window import Context, Encoded, WindowRequest, WindowResult

EOT = TOY_TOKENS.eot
ENGLISH, GERMAN = TOY_TOKENS.languages["en"], TOY_TOKENS.languages["de"]
N_POSITIONS = 50


@dataclass(frozen=True)
class State:
    """Numbers of the rows' audio, and how many tokens each wrote."""

    audio: tuple[int, ...]
    n_fed: int = 0


@dataclass
class Rows:
    """Audio number n: says token n twice, in German where n is odd, from 0.1 s * n on.

    Attributes:
        n_tokens: text of each row; then it ends.
    """

    aligns: bool = True
    n_tokens: int = 2
    fed: list[list[list[int]]] = field(default_factory=list)
    paddings: tuple[Padding, ...] = ()
    name = "rows"
    spec = toy_spec()

    silence_keys = None

    @property
    def limits(self) -> Limits:
        return Limits(aligns=self.aligns)

    def start(
        self,
        audio_features: FloatArray,
        paddings: tuple[Padding, ...],
        n_positions: IntArray | None = None,
    ) -> State:
        self.paddings = paddings
        return State(tuple(int(row) for row in audio_features[:, 0, 0]))

    def batch_size(self, state: State) -> int:
        return len(state.audio)

    def select(self, state: State, rows: np.ndarray) -> State:
        return replace(state, audio=tuple(state.audio[int(row)] for row in rows))

    def step(
        self, tokens: np.ndarray, state: State, positions: np.ndarray, **named: Any
    ) -> tuple[StepOutput, State]:
        self.fed.append(tokens.tolist())
        logits = np.full((len(state.audio), len(positions), TOY.n_vocab), -9.0, np.float32)
        for row, number in enumerate(state.audio):
            logits[row, :, GERMAN if number % 2 else ENGLISH] = -1.0
            done = state.n_fed >= self.n_tokens
            logits[row, -1:, EOT if done else number] = 9.0
        sums = np.log(np.exp(logits.astype(np.float64)).sum(-1)).astype(np.float32)
        alignment = self._eyes(tokens, state) if named.get("alignment") else None
        return StepOutput(logits, sums, alignment), replace(state, n_fed=state.n_fed + 1)

    def rewind(self, state: State, n_tokens: int) -> State:
        """Without a draft nothing is forgotten."""
        del n_tokens
        return state

    def _eyes(self, tokens: np.ndarray, state: State) -> np.ndarray:
        """At the first word until 10 + 5 n, at the second for 10 positions more, at the end then.

        The decoder looks for a word when it chooses it, so behind the prefix's last token.
        """
        eyes = np.full((len(state.audio), 1, tokens.shape[1], N_POSITIONS), 1e-6, np.float32)
        for row, number in enumerate(state.audio):
            seam = 10 + 5 * number
            edges = {3: (0, seam), 4: (seam, seam + 10), 5: (seam + 10, N_POSITIONS)}
            for at in range(tokens.shape[1]):
                begin, end = edges.get(at, (0, N_POSITIONS))
                eyes[row, 0, at, begin:end] = 1 / (end - begin)
        return eyes


def transcribe(
    decoder: Rows,
    numbers: Sequence[int],
    options: DecodingOptions | None = None,
    contexts: list[Context] | None = None,
    windows: Sequence[Window] = (),
) -> tuple[list[WindowResult], list[Context]]:
    engine = DecoderEngine(decoder, TOKENIZER, options or DecodingOptions(), 30.0)  # type: ignore[arg-type]
    own = contexts or [engine.context() for _ in numbers]
    features = np.array(numbers, np.float32).reshape(-1, 1, 1)
    asked = windows or [window(number) for number in numbers]
    requests = list(map(WindowRequest, asked, own))
    return run_steps(engine.steps(Encoded(features, StageClock()), requests)), own


def test_each_window_s_text_is_that_of_its_audio() -> None:
    heard, _ = transcribe(Rows(), [3, 1, 2])
    assert [one.segments[0].text for one in heard] == ["w3 w3", "w1 w1", "w2 w2"]
    assert [one.window.start_s for one in heard] == [3.0, 1.0, 2.0]


def test_each_window_s_words_are_looked_for_in_its_own_audio() -> None:
    """Of three rows decoded together, each is aligned alone, as it is without the others."""
    options = DecodingOptions(words=WordOptions())
    together, _ = transcribe(Rows(), [3, 1, 2], options)
    for number, of_batch in zip([3, 1, 2], together, strict=True):
        (alone,), _ = transcribe(Rows(), [number], options)
        assert of_batch.segments == alone.segments
    starts = [one.segments[0].words[1].start_s - one.window.start_s for one in together]
    assert starts == pytest.approx([0.5, 0.3, 0.4])


def test_words_are_found_wherever_text_has_no_timestamps() -> None:
    """They give it its times, whatever plan the window is of."""
    asked = [window(1, needs_words=True), window(2)]
    heard, _ = transcribe(Rows(), [1, 2], windows=asked)
    assert [len(one.segments[0].words) for one in heard] == [2, 2]
    assert [one.segments[0].start_s for one in heard] == pytest.approx([1.0, 2.0])
    assert [one.segments[0].end_s for one in heard] == pytest.approx([1.5, 2.6], abs=0.3)
    timed, _ = transcribe(Rows(), [1, 2], DecodingOptions(timestamps=True), windows=asked)
    assert [len(one.segments[0].words) for one in timed] == [1, 0], "where a plan needs them"
    blind, _ = transcribe(Rows(aligns=False), [1], windows=asked[:1])
    assert [word.text for word in blind[0].segments[0].words] == [" w1", " w1"]


def test_times_are_no_words_and_are_not_looked_for() -> None:
    class Timed(Rows):
        """From 0 to 0.18 s, the last time that there is; what comes then is not finished."""

        def step(
            self, tokens: np.ndarray, state: State, positions: np.ndarray, **named: Any
        ) -> Any:
            output, after = super().step(tokens, state, positions, **named)
            said = [20, 1, 1, 29, 29, 2, EOT][min(state.n_fed, 6)]
            output.logits[:] = -9.0
            output.logits[:, -1, said] = 9.0
            return output, after

    decoder = Timed()
    options = DecodingOptions("en", timestamps=True, words=WordOptions())
    sought = [replace(window(1), is_sought=True)]
    (heard,), _ = transcribe(decoder, [1], options, windows=sought)
    assert heard.segments[0].tokens == (20, 1, 1, 29)
    assert decoder.fed[-1] == [[11, ENGLISH, 14, 19, 1, 1, EOT]]
    assert [one.tokens for one in heard.segments[0].words] == [(1,), (1,)]


def test_a_decoder_without_eyes_gives_no_times_of_words() -> None:
    with pytest.raises(OptionError, match="decoder rows gives no attention weights"):
        transcribe(Rows(aligns=False), [1], DecodingOptions(words=WordOptions()))


def test_a_recording_s_language_is_that_of_its_first_window() -> None:
    decoder = Rows()
    heard, contexts = transcribe(decoder, [1, 2], DecodingOptions(language="auto"))
    assert [one.segments[0].language for one in heard] == ["de", "en"]
    assert [context.language for context in contexts] == ["de", "en"]
    assert next(iter(contexts[0].language_probs)) == "de"
    assert [row[1] for row in decoder.fed[1]] == [GERMAN, ENGLISH]
    again, _ = transcribe(Rows(), [2, 1], DecodingOptions(language="auto"), contexts)
    assert [one.segments[0].language for one in again] == ["de", "en"]


def test_unless_it_is_asked_for_each_window() -> None:
    options = DecodingOptions(language="auto", detect_each_window=True)
    first, contexts = transcribe(Rows(), [1, 2], options)
    again, _ = transcribe(Rows(), [2, 1], options, contexts)
    assert [one.segments[0].language for one in (*first, *again)] == ["de", "en", "en", "de"]
    assert [context.language for context in contexts] == ["de", "en"]  # of the recording


def test_a_language_that_was_told_stays_beside_one_that_is_detected() -> None:
    contexts = [Context("de"), Context("auto")]
    heard, _ = transcribe(Rows(), [2, 1], contexts=contexts)
    assert [one.segments[0].language for one in heard] == ["de", "de"]
    heard, _ = transcribe(Rows(), [2, 2], contexts=[Context("de"), Context("auto")])
    assert [one.segments[0].language for one in heard] == ["de", "en"]


def test_a_language_that_was_told_is_not_detected() -> None:
    decoder = Rows()
    options = DecodingOptions(language="de")
    heard, contexts = transcribe(decoder, [2], options)
    assert heard[0].segments[0].language == "de"
    assert contexts[0].language_probs == {}
    assert decoder.fed[0] == [[11, GERMAN, 14, 19]]


@pytest.mark.parametrize("sequential", [True, False])
def test_only_windows_in_a_row_are_shown_the_text_before(sequential: bool) -> None:
    """The first window is shown the initial prompt whatever comes; later ones in a row alone."""
    decoder = Rows()
    context = Context("en", (5, 6), sequential=sequential)
    transcribe(decoder, [1], contexts=[context])
    transcribe(decoder, [1], contexts=[context])
    prompts = [fed[0] for fed in decoder.fed if len(fed[0]) > 1 and EOT not in fed[0]]
    control = [11, ENGLISH, 14, 19]
    shown = [17, 5, 6, *control]
    assert prompts == [shown, shown if sequential else control]
    assert context.n_windows == 2


@pytest.mark.parametrize(("pad_to", "n_positions"), [(None, 1500), (700, 700), (0, 0)])
def test_every_row_is_padded_as_asked_for(pad_to: int | None, n_positions: int) -> None:
    decoder = Rows()
    transcribe(decoder, [1, 2], DecodingOptions(anti_repetition=AntiRepetition(pad_to=pad_to)))
    assert [padding.pad_to for padding in decoder.paddings] == [n_positions] * 2


def test_windows_of_one_recording_draw_for_themselves() -> None:
    """The same audio at two places: the place decides what is drawn, to a hundredth of a second."""

    class Even(Rows):
        def step(
            self, tokens: np.ndarray, state: State, positions: np.ndarray, **named: Any
        ) -> Any:
            output, after = super().step(tokens, state, positions, **named)
            output.logits[:, :, 1:6] = 9.0
            return output, after

    options = DecodingOptions(
        search=SearchOptions(temperatures=(1.0,), best_of=1), max_new_tokens=12
    )
    places = [0.0, 0.0, 0.01, 5.0]
    audio = [Window(np.zeros(16_000, np.float32), place) for place in places]
    heard, _ = transcribe(Even(n_tokens=99), [1, 1, 1, 1], options, windows=audio)
    texts = [one.decoded.tokens for one in heard]
    assert texts[0] == texts[1]
    assert len(set(texts)) == 3


class Spelling(Words):
    """A word is the id of its length."""

    def encode(self, text: str, **_: object) -> Any:
        return SimpleNamespace(ids=[len(word) for word in text.split()])


def test_rows_of_engines_alike_are_shown_their_own_prompts() -> None:
    decoder, tokenizer = Rows(), Tokenizer(Spelling(), TOY_TOKENS)  # type: ignore[arg-type]
    prompts = PromptOptions(initial_prompt="a bb ccc")

    def engine(options: DecodingOptions) -> DecoderEngine:
        return DecoderEngine(decoder, tokenizer, options, 30.0)  # type: ignore[arg-type]

    engines = [engine(DecodingOptions("en")), engine(DecodingOptions("de", prompts=prompts))]
    assert engines[0].batch_key == engines[1].batch_key
    others = DecodingOptions("en", timestamps=True), DecodingOptions("en", "translate")
    assert engines[0].batch_key not in {engine(other).batch_key for other in others}

    def fed(*asked: DecoderEngine) -> list[list[int]]:
        decoder.fed.clear()
        requests = [WindowRequest(window(2), one.context()) for one in asked]
        features = np.full((len(asked), 1, 1), 2, np.float32)
        run_steps(engines[0].steps(Encoded(features, StageClock()), requests))
        return decoder.fed[0]

    (plain,), (prompted,) = fed(engines[0]), fed(engines[1])
    assert prompted == [TOY_TOKENS.sot_prev, 1, 2, 3, plain[0], GERMAN, *plain[2:]]
    together = fed(*engines)
    assert together[0][-len(plain) :] == plain
    assert together[1] == prompted
