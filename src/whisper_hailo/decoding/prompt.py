"""Language detection and the prompt: earlier text, control tokens, a prefix."""

from __future__ import annotations

import logging
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
    if not special.languages:
        return ({"en": 1.0},) * n_rows
    tokens = np.full((n_rows, 1), special.sot, dtype=np.int64)
    output, _ = decoder.step(tokens, state, np.array([0], dtype=np.int64))
    ids = np.fromiter(special.languages.values(), dtype=np.int64)
    logits = output.logits[:, 0, ids].astype(np.float64)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs = weights / weights.sum(axis=1, keepdims=True)
    named = (zip(special.languages, row.tolist(), strict=True) for row in probs)
    return tuple(dict(sorted(row, key=lambda item: -item[1])) for row in named)


@cache
def _tell_once(n_tokens: int, room: int) -> None:
    """Warn once: a prompt maker is built for the check and again for each recording."""
    logger.warning(
        "--initial-prompt has %d tokens, this model takes %d; its end is used", n_tokens, room
    )


class PromptMaker:
    """Builds the forced ids of a window.

    `<|startofprev|> earlier text <|startoftranscript|> language task prefix`; the first part only
    where there is text to show. It takes at most half the text context, of which the end is kept; a
    prefix takes at most a quarter.
    """

    def __init__(self, tokenizer: Tokenizer, dims: Dimensions, options: DecodingOptions) -> None:
        self._tokenizer = tokenizer
        self._options = options
        self._room = dims.n_text_ctx // 2 - 1
        prompts = options.prompts
        first, prefix = prompts.initial_prompt, prompts.prefix
        self.initial = () if first is None else tokenizer.encode_plain("--initial-prompt", first)
        self._prefix = () if prefix is None else tokenizer.encode_plain("prefix", prefix)
        shown = prompts.initial_prompt or prompts.condition_on_previous_text
        if shown and tokenizer.special.sot_prev is None:
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
            _tell_once(len(self.initial), self._room)

    def tokens(
        self, language: str, previous: tuple[int, ...], *, is_first: bool
    ) -> tuple[int, ...]:
        """Return the forced ids of one window; only the first one takes the prefix."""
        options, special = self._options, self._tokenizer.special
        control = self._tokenizer.prefix(language, options.task, timestamps=options.timestamps)
        carried = self.initial[-self._room :] if options.prompts.carry_initial_prompt else ()
        rest = self._room - len(carried)
        shown = (*carried, *(previous[-rest:] if rest else ()))
        before = (special.sot_prev, *shown) if shown and special.sot_prev is not None else ()
        return (*before, *control, *(self._prefix if is_first else ()))

    def starting_context(self) -> tuple[int, ...]:
        """Return the initial prompt as text before the first window, unless it is carried."""
        return () if self._options.prompts.carry_initial_prompt else self.initial
