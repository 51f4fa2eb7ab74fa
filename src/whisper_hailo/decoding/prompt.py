"""What the decoder is shown before it writes: earlier text, control tokens, a prefix."""

from __future__ import annotations

import logging
from functools import cache
from typing import Any

import numpy as np

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.protocols import AnyDecoder
from whisper_hailo.core.spec import Dimensions, SpecialTokens
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.text.tokenizer import Tokenizer

logger = logging.getLogger(__name__)


def detect_languages(
    decoder: AnyDecoder,
    state: Any,  # noqa: ANN401 - the decoder's own state type
    special: SpecialTokens,
) -> tuple[dict[str, float], ...]:
    """Probability of each language, for every row of a started state.

    Args:
        decoder: the decoder that gave the state.
        state: with an empty self-attention cache; it stays usable.
        special: control token ids; English-only models have no languages.

    Returns:
        per row, language code to probability among the languages, likeliest first.

    Source: OpenAI Whisper, `detect_language`: the distribution after start-of-transcript,
    restricted to language ids.
    """
    n_rows = decoder.batch_size(state)
    if not special.languages:
        return ({"en": 1.0},) * n_rows
    tokens = np.full((n_rows, 1), special.sot, dtype=np.int64)
    output, _ = decoder.step(tokens, state, np.array([0], dtype=np.int64))
    ids = np.fromiter(special.languages.values(), dtype=np.int64)
    logits = output.logits[:, 0, ids].astype(np.float64)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs = weights / weights.sum(axis=1, keepdims=True)
    return tuple(
        {
            code: float(prob)
            for code, prob in sorted(
                zip(special.languages, row, strict=True), key=lambda item: -item[1]
            )
        }
        for row in probs
    )


@cache
def _tell_once(n_tokens: int, room: int) -> None:
    """A prompt maker is made for the check and for each recording; the user is told once."""
    logger.warning(
        "--initial-prompt has %d tokens, this model takes %d; its end is used", n_tokens, room
    )


class PromptMaker:
    """Builds the forced ids of a window.

    `<|startofprev|> earlier text <|startoftranscript|> language task prefix`; the first
    part only where there is something to show. It takes at most half the text context, of the
    earlier text the end is kept; a prefix takes at most a quarter.

    Args:
        tokenizer: of the model.
        dims: its sizes.
        options: language, task and prompts.

    Raises:
        OptionError: a prompt that gives no tokens or does not fit, or one for a model without
            start-of-previous.
    """

    def __init__(self, tokenizer: Tokenizer, dims: Dimensions, options: DecodingOptions) -> None:
        self._tokenizer = tokenizer
        self._options = options
        self._room = dims.n_text_ctx // 2 - 1
        prompts = options.prompts
        self.initial = self._encode("--initial-prompt", prompts.initial_prompt)
        self._prefix = self._encode("prefix", prompts.prefix)
        shown = prompts.initial_prompt or prompts.condition_on_previous_text
        if shown and tokenizer.special.sot_prev is None:
            raise OptionError(
                "this model has no <|startofprev|> token and takes no prompt; leave out "
                "--initial-prompt and --condition-on-previous-text"
            )
        self._check_lengths(dims.n_text_ctx // 4)

    def _encode(self, option: str, text: str | None) -> tuple[int, ...]:
        return () if text is None else self._tokenizer.encode_plain(option, text)

    def _check_lengths(self, quarter: int) -> None:
        if len(self._prefix) > quarter:
            raise OptionError(
                f"prefix has {len(self._prefix)} tokens, this model takes {quarter}; shorten it"
            )
        if len(self.initial) > self._room:
            _tell_once(len(self.initial), self._room)

    def tokens(
        self, language: str, previous: tuple[int, ...], *, is_first: bool
    ) -> tuple[int, ...]:
        """Forced ids of one window.

        Args:
            language: language code.
            previous: ids of the text before, which may be longer than there is room.
            is_first: whether this is the recording's first window, which takes the prefix.

        Raises:
            OptionError: the model does not know the language or the task.
        """
        special = self._tokenizer.special
        control = self._tokenizer.prefix(
            language, self._options.task, timestamps=self._options.timestamps
        )
        carried = self.initial[-self._room :] if self._options.prompts.carry_initial_prompt else ()
        rest = self._room - len(carried)
        shown = (*carried, *(previous[-rest:] if rest else ()))
        before = (special.sot_prev, *shown) if shown and special.sot_prev is not None else ()
        return (*before, *control, *(self._prefix if is_first else ()))

    def starting_context(self) -> tuple[int, ...]:
        """What counts as said before the first window: the initial prompt, unless it is carried."""
        return () if self._options.prompts.carry_initial_prompt else self.initial
