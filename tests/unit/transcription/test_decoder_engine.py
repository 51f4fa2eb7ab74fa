"""A decoder's windows in a batch: each row has its own audio, language, prompt and words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.fakes.model_sizes import TOY, TOY_TOKENS, toy_spec
from tests.fakes.words import TOKENIZER, Words, window
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
    TokenLimits,
)
from whisper_hailo.decoding.search.loop import run_steps
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.text.tokenizer import Tokenizer
from whisper_hailo.transcription.decoder_engine import DecoderEngine
from whisper_hailo.transcription.partials import PartialBuffer
from whisper_hailo.transcription.window import (
    Context,
    Encoded,
    WindowRequest,
    WindowResult,
)

EOT = TOY_TOKENS.eot
ENGLISH = TOY_TOKENS.languages["en"]
GERMAN = TOY_TOKENS.languages["de"]
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
        logits = np.full(
            (len(state.audio), len(positions), TOY.n_vocab), -9.0, np.float32
        )
        for row, number in enumerate(state.audio):
            logits[row, :, GERMAN if number % 2 else ENGLISH] = -1.0
            done = state.n_fed >= self.n_tokens
            logits[row, -1:, EOT if done else number] = 9.0
        sums = np.log(np.exp(logits.astype(np.float64)).sum(-1)).astype(np.float32)
        alignment = self._eyes(tokens, state) if named.get("alignment") else None
        return StepOutput(logits, sums, alignment), replace(
            state, n_fed=state.n_fed + 1
        )

    def rewind(self, state: State, n_tokens: int) -> State:
        """Without a draft nothing is forgotten."""
        del n_tokens
        return state

    def _eyes(self, tokens: np.ndarray, state: State) -> np.ndarray:
        """At the first word until 10 + 5 n, at the second for 10 positions more, at the end then.

        The decoder looks for a word when it chooses it, so behind the prefix's last token.
        """
        eyes = np.full(
            (len(state.audio), 1, tokens.shape[1], N_POSITIONS), 1e-6, np.float32
        )
        for row, number in enumerate(state.audio):
            seam = 10 + 5 * number
            edges = {3: (0, seam), 4: (seam, seam + 10), 5: (seam + 10, N_POSITIONS)}
            for index in range(tokens.shape[1]):
                begin, end = edges.get(index, (0, N_POSITIONS))
                eyes[row, 0, index, begin:end] = 1 / (end - begin)
        return eyes


def transcribe(
    decoder: Rows,
    numbers: Sequence[int],
    options: DecodingOptions | None = None,
    contexts: list[Context] | None = None,
    windows: Sequence[Window] = (),
) -> tuple[list[WindowResult], list[Context]]:
    engine = DecoderEngine(decoder, TOKENIZER, options or DecodingOptions(), 30.0)  # type: ignore[arg-type]
    window_contexts = contexts or [engine.context() for _ in numbers]
    features = np.array(numbers, np.float32).reshape(-1, 1, 1)
    asked = windows or [window(number) for number in numbers]
    requests = list(map(WindowRequest, asked, window_contexts))
    return run_steps(
        engine.decode_windows(Encoded(features, StageClock()), requests)
    ), window_contexts


def test_batch_gives_each_window_its_text() -> None:
    heard, _ = transcribe(Rows(), [3, 1, 2])
    assert [result.segments[0].text for result in heard] == ["w3 w3", "w1 w1", "w2 w2"]
    assert [result.window.start_s for result in heard] == [3.0, 1.0, 2.0]


def test_batch_aligns_each_window_alone() -> None:
    """Of three rows decoded together, each is aligned alone, as it is without the others."""
    options = DecodingOptions(word_timestamps=True)
    together, _ = transcribe(Rows(), [3, 1, 2], options)
    for number, of_batch in zip([3, 1, 2], together, strict=True):
        (alone,), _ = transcribe(Rows(), [number], options)
        assert of_batch.segments == alone.segments
    starts = [
        result.segments[0].words[1].start_s - result.window.start_s
        for result in together
    ]
    assert starts == pytest.approx([0.5, 0.3, 0.4])


def test_windows_without_timestamps_get_words() -> None:
    """They give it its times, whatever plan the window is of."""
    asked = [window(1, needs_words=True), window(2)]
    heard, _ = transcribe(Rows(), [1, 2], windows=asked)
    assert [len(result.segments[0].words) for result in heard] == [2, 2]
    assert [result.segments[0].start_s for result in heard] == pytest.approx([1.0, 2.0])
    assert [result.segments[0].end_s for result in heard] == pytest.approx(
        [1.5, 2.6], abs=0.3
    )
    timed, _ = transcribe(
        Rows(), [1, 2], DecodingOptions(timestamps=True), windows=asked
    )
    assert [len(result.segments[0].words) for result in timed] == [1, 0], (
        "where a plan needs them"
    )
    blind, _ = transcribe(Rows(aligns=False), [1], windows=asked[:1])
    assert [word.text for word in blind[0].segments[0].words] == [" w1", " w1"]


def test_timestamps_are_not_aligned_as_words() -> None:
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
    options = DecodingOptions("en", timestamps=True, word_timestamps=True)
    sought = [replace(window(1), is_sought=True)]
    (heard,), _ = transcribe(decoder, [1], options, windows=sought)
    assert heard.segments[0].tokens == (20, 1, 1, 29)
    assert decoder.fed[-1] == [[11, ENGLISH, 14, 19, 1, 1, EOT]]
    assert [word.tokens for word in heard.segments[0].words] == [(1,), (1,)]


def test_decoder_without_alignment_refuses_word_timestamps() -> None:
    with pytest.raises(OptionError, match="attention"):
        transcribe(Rows(aligns=False), [1], DecodingOptions(word_timestamps=True))


def test_language_is_detected_once_per_recording() -> None:
    decoder = Rows()
    heard, contexts = transcribe(decoder, [1, 2], DecodingOptions(language="auto"))
    assert [result.segments[0].language for result in heard] == ["de", "en"]
    assert [context.language for context in contexts] == ["de", "en"]
    assert next(iter(contexts[0].language_probs)) == "de"
    assert [row[1] for row in decoder.fed[1]] == [GERMAN, ENGLISH]
    again, _ = transcribe(Rows(), [2, 1], DecodingOptions(language="auto"), contexts)
    assert [result.segments[0].language for result in again] == ["de", "en"]


def test_detect_each_window_detects_each() -> None:
    options = DecodingOptions(language="auto", detect_each_window=True)
    first, contexts = transcribe(Rows(), [1, 2], options)
    again, _ = transcribe(Rows(), [2, 1], options, contexts)
    assert [result.segments[0].language for result in (*first, *again)] == [
        "de",
        "en",
        "en",
        "de",
    ]
    # Of the recording.
    assert [context.language for context in contexts] == ["de", "en"]


def test_language_set_detects_each_window_among_its_own() -> None:
    options = DecodingOptions(language="de,fr")
    heard, contexts = transcribe(Rows(), [1, 2], options)
    # The model knows no French.
    assert [result.segments[0].language for result in heard] == ["de", "de"]
    heard, _ = transcribe(Rows(), [1, 2], DecodingOptions(language="en,de"), contexts)
    assert contexts[0].languages == ("de", "fr")
    both = DecodingOptions(language="en,de")
    heard, contexts = transcribe(Rows(), [1, 2], both)
    again, _ = transcribe(Rows(), [2, 1], both, contexts)
    assert [result.segments[0].language for result in (*heard, *again)] == [
        "de",
        "en",
        "en",
        "de",
    ]


def test_given_language_stays_in_a_batch_with_detection() -> None:
    contexts = [Context("de"), Context("auto")]
    heard, _ = transcribe(Rows(), [2, 1], contexts=contexts)
    assert [result.segments[0].language for result in heard] == ["de", "de"]
    heard, _ = transcribe(Rows(), [2, 2], contexts=[Context("de"), Context("auto")])
    assert [result.segments[0].language for result in heard] == ["de", "en"]


def test_given_language_is_not_detected() -> None:
    decoder = Rows()
    options = DecodingOptions(language="de")
    heard, contexts = transcribe(decoder, [2], options)
    assert heard[0].segments[0].language == "de"
    assert contexts[0].language_probs == {}
    assert decoder.fed[0] == [[11, GERMAN, 14, 19]]


@pytest.mark.parametrize("sequential", [True, False])
def test_decoder_engine_prompts_sequential_windows_only(sequential: bool) -> None:
    """The first window is shown the initial prompt whatever comes; later ones in a row alone."""
    decoder = Rows()
    context = Context("en", (5, 6), sequential=sequential)
    transcribe(decoder, [1], contexts=[context])
    transcribe(decoder, [1], contexts=[context])
    prompts = [fed[0] for fed in decoder.fed if len(fed[0]) > 1 and EOT not in fed[0]]
    control = [11, ENGLISH, 14, 19]
    prompted = [17, 5, 6, *control]
    assert prompts == [prompted, prompted if sequential else control]
    assert context.n_windows == 2


@pytest.mark.parametrize(("pad_to", "n_positions"), [(None, 1500), (700, 700), (0, 0)])
def test_decoder_engine_gives_padding_to_every_row(
    pad_to: int | None, n_positions: int
) -> None:
    decoder = Rows()
    transcribe(
        decoder, [1, 2], DecodingOptions(anti_repetition=AntiRepetition(pad_to=pad_to))
    )
    assert [padding.pad_to for padding in decoder.paddings] == [n_positions] * 2


def test_sampling_key_is_the_window_s_start() -> None:
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
    audio = [Window(np.zeros(16_000, np.float32), start_s) for start_s in places]
    heard, _ = transcribe(Even(n_tokens=99), [1, 1, 1, 1], options, windows=audio)
    texts = [result.decoded.tokens for result in heard]
    assert texts[0] == texts[1]
    assert len(set(texts)) == 3


class Spelling(Words):
    """A word is the id of its length."""

    def encode(self, text: str, **_: object) -> Any:
        return SimpleNamespace(ids=[len(word) for word in text.split()])


def test_rows_of_equal_engines_keep_their_prompts() -> None:
    decoder = Rows()
    tokenizer = Tokenizer(Spelling(), TOY_TOKENS)  # type: ignore[arg-type]
    prompts = PromptOptions(initial_prompt="a bb ccc")

    def engine(options: DecodingOptions) -> DecoderEngine:
        return DecoderEngine(decoder, tokenizer, options, 30.0)  # type: ignore[arg-type]

    engines = [
        engine(DecodingOptions("en")),
        engine(DecodingOptions("de", prompts=prompts)),
    ]
    assert engines[0].batch_key == engines[1].batch_key
    others = DecodingOptions("en", timestamps=True), DecodingOptions("en", "translate")
    assert engines[0].batch_key not in {engine(other).batch_key for other in others}

    def fed(*asked: DecoderEngine) -> list[list[int]]:
        decoder.fed.clear()
        requests = [
            WindowRequest(window(2), decoder_engine.context())
            for decoder_engine in asked
        ]
        features = np.full((len(asked), 1, 1), 2, np.float32)
        run_steps(engines[0].decode_windows(Encoded(features, StageClock()), requests))
        return decoder.fed[0]

    (plain,) = fed(engines[0])
    (prompted,) = fed(engines[1])
    assert prompted == [TOY_TOKENS.sot_prev, 1, 2, 3, plain[0], GERMAN, *plain[2:]]
    together = fed(*engines)
    assert together[0][-len(plain) :] == plain
    assert together[1] == prompted


ENGLISH_WINDOW = DecodingOptions("en")
SPELLING = Tokenizer(Spelling(), TOY_TOKENS)  # type: ignore[arg-type]


def number(value: int) -> FloatArray:
    """Audio features that this number is heard in."""
    return np.full((1, 1, 1), value, np.float32)


def engine(
    decoder: Rows,
    options: DecodingOptions = ENGLISH_WINDOW,
    tokenizer: Tokenizer = TOKENIZER,
) -> DecoderEngine:
    return DecoderEngine(decoder, tokenizer, options, 30.0)  # type: ignore[arg-type]


def hear(decoder_engine: DecoderEngine, request: WindowRequest) -> WindowResult:
    (heard,) = run_steps(
        decoder_engine.decode_windows(Encoded(number(2), StageClock()), [request])
    )
    return heard


class Reading(Rows):
    """Says what it says behind a draft of it, too, all in one pass."""

    def step(
        self, tokens: np.ndarray, state: State, positions: np.ndarray, **named: Any
    ) -> Any:
        output, after = super().step(tokens, state, positions, **named)
        for look, position in enumerate(positions):
            said = state.audio[0] if position - 3 < self.n_tokens else EOT
            output.logits[0, look] = -9.0
            output.logits[0, look, said] = 9.0
        return output, after


def test_rows_of_equal_engines_keep_their_prefixes() -> None:
    decoder = Rows()
    prefixed = replace(ENGLISH_WINDOW, prompts=PromptOptions(prefix="a bb"))
    engines = [
        engine(decoder, ENGLISH_WINDOW, SPELLING),
        engine(decoder, prefixed, SPELLING),
    ]
    requests = [
        WindowRequest(window(2), decoder_engine.context()) for decoder_engine in engines
    ]
    features = np.full((2, 1, 1), 2, np.float32)
    run_steps(engines[0].decode_windows(Encoded(features, StageClock()), requests))
    plain, begun = decoder.fed[0]
    assert begun[-2:] == [1, 2]
    assert begun[-3] == plain[-1] == TOY_TOKENS.no_timestamps


def test_live_audio_gets_the_initial_prompt() -> None:
    decoder = Rows()
    decoder_engine = engine(
        decoder,
        replace(ENGLISH_WINDOW, prompts=PromptOptions(initial_prompt="a bb")),
        SPELLING,
    )
    audio = np.zeros(16_000, np.float32)
    heard = hear(
        decoder_engine,
        PartialBuffer(audio, Draft()).request(decoder_engine.context(), audio.size),
    )
    assert heard.kept_tokens(TOY_TOKENS.eot) == [2, 2]
    assert decoder.fed[0][0][:3] == [TOY_TOKENS.sot_prev, 1, 2]


def test_live_audio_is_not_retried() -> None:
    """It repeats itself; more audio comes anyway."""
    options = replace(
        ENGLISH_WINDOW, search=SearchOptions((0.0, 0.4), retry_beam_size=1)
    )
    whole = Rows(n_tokens=20)
    running = Reading(n_tokens=20)
    request = WindowRequest(window(2), engine(whole, options).context())
    assert hear(engine(whole, options), request).silent, "no try brought anything else"
    heard = hear(engine(running, options), replace(request, draft=Draft((2, 2))))
    assert not heard.silent
    assert heard.decoded.temperature == 0.0
    begun = [[fed[0][0] for fed in decoder.fed] for decoder in (whole, running)]
    assert [first.count(TOY_TOKENS.sot) for first in begun] == [2, 1]


@pytest.mark.parametrize("hears_speech", [False, True])
def test_live_segment_without_speech_has_no_doubtful_text(
    hears_speech: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Doubtful(Rows):
        def step(
            self, tokens: np.ndarray, state: State, positions: np.ndarray, **named: Any
        ) -> Any:
            output, after = super().step(tokens, state, positions, **named)
            output.logits[:, :, :EOT] = 8.9
            return output, after

    monkeypatch.setattr(
        "whisper_hailo.transcription.decoder_engine.has_speech",
        lambda *_: hears_speech,
    )
    own = engine(Doubtful(), ENGLISH_WINDOW)
    audio = np.zeros(16_000, np.float32)
    buffer = PartialBuffer(audio, word_timestamps=True)
    result = hear(own, buffer.request(own.context(), audio.size))
    assert bool(result.segments) == hears_speech


def test_live_audio_by_default_holds_nothing_back() -> None:
    """Nothing is held back, no word has a time."""
    decoder_engine = engine(Reading())
    heard = hear(
        decoder_engine,
        WindowRequest(window(2), decoder_engine.context(), Draft((2, 2))),
    )
    assert heard.kept_tokens(TOY_TOKENS.eot) == [2, 2]
    assert heard.words == ()


def test_live_silence_has_no_words() -> None:
    """It would end at once, were it let."""

    class Silent(Reading):
        def step(
            self, tokens: np.ndarray, state: State, *rest: Any, **named: Any
        ) -> Any:
            output, after = super().step(tokens, state, *rest, **named)
            if state.n_fed == 0 and not named.get("alignment"):
                output.logits[0, 0] = -9.0  # at start-of-transcript
                output.logits[0, 0, TOY_TOKENS.no_speech] = 9.0
                output.logits[0, 1, EOT] = 10.0
            return output, after

    decoder_engine = engine(Silent())
    heard = hear(
        decoder_engine,
        WindowRequest(
            window(2), decoder_engine.context(), Draft(), word_timestamps=True
        ),
    )
    assert heard.decoded.tokens[:2] == (2, 2)
    assert heard.silent
    assert heard.words == ()


@pytest.mark.parametrize(
    ("hold_back_s", "expected_tokens"),
    [
        (0.0, (2, 2)),
        (0.58, (2, 2)),
        (0.585, (2, 2)),
        (0.595, (2,)),
        (0.6, (2,)),
        (0.98, (2,)),
        (1.0, ()),
        (9.0, ()),
    ],
)
def test_hold_back_ends_text_at_attended_last_seconds(
    hold_back_s: float, expected_tokens: tuple[int, ...]
) -> None:
    """The first word is chosen looking at position 0 of 50, the second at 20, or 0.4 s."""
    engine = DecoderEngine(Reading(), TOKENIZER, DecodingOptions("en"), 30.0)  # type: ignore[arg-type]
    request = WindowRequest(
        window(2), engine.context(), Draft((2, 2)), hold_back_s=hold_back_s
    )
    features = np.full((1, 1, 1), 2, np.float32)
    (heard,) = run_steps(
        engine.decode_windows(Encoded(features, StageClock()), [request])
    )
    assert heard.decoded.tokens == expected_tokens


@pytest.mark.parametrize("hold_back_s", [0.0, 0.5])
def test_alignment_is_asked_for_only_to_hold_back(
    hold_back_s: float,
) -> None:
    asked: list[bool] = []

    class Looking(Reading):
        def step(self, *fed: Any, **named: Any) -> Any:
            asked.append(named.get("alignment", False))
            return super().step(*fed, **named)

    engine = DecoderEngine(Looking(), TOKENIZER, DecodingOptions("en"), 30.0)  # type: ignore[arg-type]
    request = WindowRequest(
        window(2), engine.context(), Draft((2, 2)), hold_back_s=hold_back_s
    )
    features = np.full((1, 1, 1), 2, np.float32)
    run_steps(engine.decode_windows(Encoded(features, StageClock()), [request]))
    assert set(asked) == {hold_back_s > 0}


def test_decoder_without_alignment_holds_nothing_back() -> None:
    decoder = Reading(aligns=False)
    blind = DecoderEngine(decoder, TOKENIZER, DecodingOptions("en"), 30.0)  # type: ignore[arg-type]
    request = WindowRequest(window(2), blind.context(), Draft((2, 2)), hold_back_s=9.0)
    features = np.full((1, 1, 1), 2, np.float32)
    (heard,) = run_steps(
        blind.decode_windows(Encoded(features, StageClock()), [request])
    )
    assert heard.decoded.tokens == (2, 2)


class Asked(Rows):
    """Notes whether it is asked where it looks, and for single rows; one alone is not selected."""

    def __init__(self) -> None:
        super().__init__()
        self.looked: list[bool] = []
        self.n_selected = 0

    def step(self, *fed: Any, **named: Any) -> Any:
        self.looked.append(named.get("alignment", False))
        return super().step(*fed, **named)

    def select(self, state: State, rows: np.ndarray) -> State:
        assert len(state.audio) > 1, "a copy of all keys and values, for nothing"
        self.n_selected += 1
        return super().select(state, rows)


class Mute(Words):
    """No id is a word."""

    def decode(self, ids: Any, **_: object) -> str:
        return " "


def test_silent_windows_are_not_aligned() -> None:
    decoder = Asked()
    timed = replace(ENGLISH_WINDOW, word_timestamps=True)
    decoder_engine = engine(decoder, timed, Tokenizer(Mute(), TOY_TOKENS))  # type: ignore[arg-type]
    requests = [WindowRequest(window(2), decoder_engine.context()) for _ in range(2)]
    features = np.full((2, 1, 1), 2, np.float32)
    silent = run_steps(
        decoder_engine.decode_windows(Encoded(features, StageClock()), requests)
    )
    assert [result.segments for result in silent] == [(), ()]
    assert not any(decoder.looked)
    assert decoder.n_selected == 0
    (heard,), _ = transcribe(decoder, [2], timed)
    assert [word.text for word in heard.segments[0].words] == [" w2", " w2"]
    assert decoder.looked.count(True) == 1


def test_decoder_engine_aligns_two_rows_one_by_one() -> None:
    timed = replace(ENGLISH_WINDOW, word_timestamps=True)
    together, _ = transcribe(Asked(), [3, 1], timed)
    alone = [transcribe(Asked(), [one], timed)[0][0] for one in (3, 1)]
    assert [one.segments for one in together] == [one.segments for one in alone]


class Commas(Words):
    """Id 2 is a comma."""

    def decode(self, ids: Any, **_: object) -> str:
        return "".join("," if token == 2 else f" w{token}" for token in ids)


def test_live_audio_verifies_its_draft() -> None:
    decoder_engine = engine(Reading())
    request = WindowRequest(
        window(2), decoder_engine.context(), Draft((2, 2), n_fixed=1)
    )
    decoded = hear(decoder_engine, request).decoded
    assert decoded.tokens == (2, 2)
    assert decoded.drafted is not None
    assert decoded.drafted.n_fixed == 1


TIMED = DecodingOptions(word_timestamps=True)
ODD = np.full((1, 1, 1), 3, np.float32)
"""Audio that Rows takes for the second language."""


def decode_one(
    decoder: Rows,
    options: DecodingOptions,
    tokenizer: Tokenizer = TOKENIZER,
    last_speech_s: float = 0.0,
) -> WindowResult:
    engine = DecoderEngine(decoder, tokenizer, options, 30.0)  # type: ignore[arg-type]
    context = engine.context()
    context.last_speech_s = last_speech_s
    (heard,) = run_steps(
        engine.decode_windows(
            Encoded(ODD, StageClock()), [WindowRequest(window(9), context)]
        )
    )
    return heard


@pytest.mark.parametrize("task", ["transcribe", "translate"])
def test_alignment_uses_the_decoded_language_and_task(task: str) -> None:
    decoder = Rows()
    decode_one(decoder, replace(TIMED, task=task))
    ids = {"transcribe": TOY_TOKENS.transcribe, "translate": TOY_TOKENS.translate}
    prefix = [
        TOY_TOKENS.sot,
        TOY_TOKENS.languages["de"],
        ids[task],
        TOY_TOKENS.no_timestamps,
    ]
    assert decoder.fed[1][0] == prefix, "behind the look at its language"
    assert decoder.fed[-1] == [[*prefix, 3, 3, TOY_TOKENS.eot]]


class Unspaced(Words):
    """No word begins with a blank."""

    def decode(self, ids: Any, **_: object) -> str:
        return "".join(f"w{token}" for token in ids)


@pytest.mark.parametrize(("code", "n_words"), [("de", 1), ("zh", 2)])
def test_words_are_split_by_the_detected_language(code: str, n_words: int) -> None:
    """Nobody told it: where no blanks are written each token is a word."""
    tokens = replace(TOY_TOKENS, languages={"en": 12, code: 13})
    tokenizer = Tokenizer(Unspaced(), tokens)  # type: ignore[arg-type]
    (segment,) = decode_one(Rows(), TIMED, tokenizer).segments
    assert segment.language == code
    assert len(segment.words) == n_words


class Eyes(Rows):
    """Three words of 0.4, 0.16 and 0.16 s."""

    def _eyes(self, tokens: np.ndarray, state: State) -> np.ndarray:
        eyes = np.full((1, 1, tokens.shape[1], N_POSITIONS), 1e-6, np.float32)
        edges = {3: (0, 20), 4: (20, 28), 5: (28, 36), 6: (36, N_POSITIONS)}
        for index in range(tokens.shape[1]):
            begin, end = edges.get(index, (0, N_POSITIONS))
            eyes[0, 0, index, begin:end] = 1 / (end - begin)
        return eyes


@pytest.mark.parametrize(("last_speech_s", "start_s"), [(9.0, 9.0), (8.0, 9.08)])
def test_long_first_word_after_a_pause_is_shortened(
    last_speech_s: float, start_s: float
) -> None:
    """To twice the median, if it ends more than four medians behind the window before."""
    (segment,) = decode_one(
        Eyes(n_tokens=3), TIMED, last_speech_s=last_speech_s
    ).segments
    first = segment.words[0]
    assert (first.start_s, first.end_s) == pytest.approx((start_s, 9.4))


def test_token_limit_counts_the_window_s_audio(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Of one second, in a window of thirty."""
    caplog.set_level("DEBUG")
    heard = decode_one(
        Rows(n_tokens=9), DecodingOptions(limits=TokenLimits(max_per_second=4.0))
    )
    assert heard.decoded.tokens == (3, 3, 3, 3)
    (message,) = caplog.messages
    assert "4 tokens" in message
    decode_one(
        Rows(n_tokens=3), DecodingOptions(limits=TokenLimits(max_per_second=4.0))
    )
    assert len(caplog.messages) == 1
