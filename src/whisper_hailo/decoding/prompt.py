"""Language detection and the prompt: earlier text, control tokens, a prefix."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cache

import numpy as np

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.protocols import AnyDecoder, DecoderState
from whisper_hailo.core.spec import Dimensions, SpecialTokens
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.text.tokenizer import Tokenizer

logger = logging.getLogger(__name__)


def detect_languages(
    decoder: AnyDecoder, state: DecoderState, special: SpecialTokens
) -> tuple[dict[str, float], ...]:
    """Return language code to probability for every row, likeliest first.

    `state` has an empty self-attention cache and stays usable.

    Source: OpenAI Whisper, `detect_language`.
    """
    n_rows = decoder.batch_size(state)
    if not special.languages:  # a model of English alone
        return ({"en": 1.0},) * n_rows
    tokens = np.full((n_rows, 1), special.sot, dtype=np.int64)
    output, _ = decoder.step(tokens, state, np.array([0], dtype=np.int64))
    ids = np.fromiter(special.languages.values(), dtype=np.int64)
    logits = output.logits[:, 0, ids].astype(np.float64)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs = weights / weights.sum(axis=1, keepdims=True)
    return tuple(
        _rank(dict(zip(special.languages, row, strict=True))) for row in probs.tolist()
    )


def restrict_languages(
    probs: dict[str, float], languages: Sequence[str]
) -> dict[str, float]:
    """Return probabilities among some languages, likeliest first; none of them: all stay."""
    known = [language for language in languages if language in probs]
    if not known:
        return probs
    total = sum(probs[language] for language in known)
    if total == 0:  # beyond what numbers can tell
        return dict.fromkeys(known, 1 / len(known))
    return _rank({language: probs[language] / total for language in known})


def _rank(probs: dict[str, float]) -> dict[str, float]:
    """Return languages by their probability, likeliest first."""
    return dict(sorted(probs.items(), key=lambda item: -item[1]))


def replace_language(
    prompt: tuple[int, ...], special: SpecialTokens, language: str
) -> tuple[int, ...]:
    """Return a window's forced ids with another language, which the model has to know."""
    index = prompt.index(special.sot) + 1
    return (*prompt[:index], special.languages[language], *prompt[index + 1 :])


@cache
def _warn_once(n_tokens: int, room: int) -> None:
    """Warn once: a prompt maker is built for the check and again for each recording."""
    logger.warning(
        "--initial-prompt has %d tokens, this model takes %d; its end is used",
        n_tokens,
        room,
    )


class PromptMaker:
    """Builds the forced ids of a window.

    `<|startofprev|> earlier text <|startoftranscript|> language task prefix`; the first part only
    where there is text to show. It takes at most half the text context, of which the end is kept; a
    prefix takes at most a quarter.
    """

    def __init__(
        self, tokenizer: Tokenizer, dims: Dimensions, options: DecodingOptions
    ) -> None:
        self._tokenizer = tokenizer
        self._options = options
        self._room = dims.n_text_ctx // 2 - 1
        prompts = options.prompts
        self.initial: tuple[int, ...] = ()
        if prompts.initial_prompt is not None:
            self.initial = tokenizer.encode_plain(
                "--initial-prompt", prompts.initial_prompt
            )
        self._prefix: tuple[int, ...] = ()
        if prompts.prefix is not None:
            self._prefix = tokenizer.encode_plain("--prefix", prompts.prefix)
        shows_text = prompts.initial_prompt or prompts.condition_on_previous_text
        if shows_text and tokenizer.special.sot_prev is None:
            raise OptionError(
                "this model has no <|startofprev|> token and takes no prompt; leave out "
                "--initial-prompt and --condition-on-previous-text"
            )
        quarter = dims.n_text_ctx // 4
        if len(self._prefix) > quarter:
            raise OptionError(
                f"--prefix has {len(self._prefix)} tokens, this model takes {quarter}; shorten it"
            )
        if len(self.initial) > self._room:
            _warn_once(len(self.initial), self._room)

    def tokens(
        self, language: str, previous: tuple[int, ...], *, is_first: bool
    ) -> tuple[int, ...]:
        """Return the forced ids of one window; only the first one takes the prefix."""
        options = self._options
        sot_prev = self._tokenizer.special.sot_prev
        ids: list[int] = []
        earlier = self._earlier_text(previous)
        if earlier and sot_prev is not None:
            ids += [sot_prev, *earlier]
        ids += self._tokenizer.prefix(
            language, options.task, timestamps=options.timestamps
        )
        if is_first:
            ids += self._prefix
        return tuple(ids)

    def _earlier_text(self, previous: tuple[int, ...]) -> tuple[int, ...]:
        """Return what fits: a carried prompt, then the end of the text before the window."""
        carried: tuple[int, ...] = ()
        if self._options.prompts.carry_initial_prompt:
            carried = self.initial[-self._room :]
        room = self._room - len(carried)
        if not room:  # a slice from -0 would take all
            return carried
        return (*carried, *previous[-room:])

    def starting_context(self) -> tuple[int, ...]:
        """Return the initial prompt as text before the first window, unless it is carried."""
        return () if self._options.prompts.carry_initial_prompt else self.initial
