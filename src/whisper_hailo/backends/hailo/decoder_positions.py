"""Who adds the position rows to a decoder's embeddings: asked of the file at its first use.

HEFs for 8 and 8L want them added on the host, the vendor's for the 10H add them inside, and no
entry of a file says which. Added twice, or not at all, they give gibberish. So both ways are tried
on words that the CPU hears, and the likelier is taken.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

import numpy as np

from whisper_hailo.backends.hailo.hef_contract import CHIP, HOST
from whisper_hailo.backends.hailo.hef_parts import HefRunner
from whisper_hailo.backends.hailo.kept_answers import (
    answer_key,
    keep_answer,
    read_answers,
)
from whisper_hailo.backends.hailo.known_answer import first_window
from whisper_hailo.backends.onnx import CachedDecoder, OnnxEncoder
from whisper_hailo.backends.silence import bundled_clips
from whisper_hailo.backends.step_output import logsumexp
from whisper_hailo.core.errors import ModelError, WrongAnswerError, display_path
from whisper_hailo.core.protocols import Padding
from whisper_hailo.core.spec import DECODER_FILE, ENCODER_FILE, ModelSpec
from whisper_hailo.core.types import FRAMES_PER_POSITION, FloatArray, IntArray

logger = logging.getLogger(__name__)

N_WORDS: Final = 16
"""Tokens of the CPU's text by which the two ways are compared. With real base, rows that are added
twice cost 0.29 of log-probability a token, and only 0.12 of the first five."""

MIN_LOGPROB: Final = -3.5
"""Mean log-probability of those tokens below which neither way is right. The right way gives -0.2
to -0.4 with real tiny.en and base, no rows at all -4.3 to -9.8."""

_POSITION: Final = "positions"


def choose_positions(
    runner: HefRunner, directory: Path, spec: ModelSpec, threads: int = 0
) -> None:
    """Set `runner.positions` to the side that makes the CPU's words likelier.

    `runner` is not open, and is closed again.

    Raises:
        WrongAnswerError: neither side makes them likely.
        DeviceError: the chip cannot be used.
    """
    if not {ENCODER_FILE, DECODER_FILE} <= spec.files.keys():
        logger.info(
            "%s is not compared with the CPU: %s has no graphs of its own",
            runner.path.name,
            display_path(directory),
        )
        return
    key = answer_key(runner.path, spec, DECODER_FILE)
    answer = read_answers().get(key)
    if isinstance(answer, dict) and answer.get(_POSITION) in (HOST, CHIP):
        runner.positions = answer[_POSITION]
        return
    # The chip stays open for both ways, and until the answer is kept: a driver that hangs when it
    # is released ends the program, and the next run does not ask again.
    with runner.lease.another():
        _learn_positions(runner, directory, spec, threads, key)


def _learn_positions(
    runner: HefRunner, directory: Path, spec: ModelSpec, threads: int, key: str
) -> None:
    """Try both ways and keep the likelier under a key; see `choose_positions`."""
    expected = runner.shape.positions
    logprobs = compare_positions(runner, directory, spec, threads)
    best = max(logprobs, key=lambda side: logprobs[side])
    if logprobs[best] < MIN_LOGPROB:
        raise WrongAnswerError(
            f"the Hailo chip gives wrong results with {display_path(runner.path)}: it rates the "
            f"words that the CPU hears as unlikely (log-probability {logprobs[HOST]:.1f} with "
            f"position rows from the host, {logprobs[CHIP]:.1f} without); is it for {spec.name}? "
            "Leave --decoder out to decode on the CPU"
        )
    if best != expected:
        logger.warning(
            "%s takes its position rows from the %s, although others of its kind take them from "
            "the %s",
            runner.path.name,
            best,
            expected,
        )
    runner.positions = best
    keep_answer(key, {_POSITION: best, "logprobs": logprobs})


def compare_positions(
    runner: HefRunner, directory: Path, spec: ModelSpec, threads: int = 0
) -> dict[str, float]:
    """Return the mean log-probability of the CPU's words with position rows from either side.

    `runner` is not open, and is closed again.
    """
    features = _features(runner, directory, spec, threads)
    prompt, words = _cpu_words(features, directory, spec, threads)
    words = words[: runner.length - len(prompt)]
    return {
        side: _mean_logprob(runner, side, features, prompt, words)
        for side in (HOST, CHIP)
    }


def _features(
    runner: HefRunner, directory: Path, spec: ModelSpec, threads: int
) -> FloatArray:
    """Return the CPU's features `(1, n_positions, d_model)` of a recording."""
    n_frames = runner.n_positions * FRAMES_PER_POSITION
    mel = first_window(bundled_clips()[0], n_frames, spec)
    with OnnxEncoder(directory, spec, threads) as encoder:
        return encoder.encode(mel[np.newaxis])


def _cpu_words(
    features: FloatArray, directory: Path, spec: ModelSpec, threads: int
) -> tuple[list[int], list[int]]:
    """Return the prompt, and the first tokens that the CPU's decoder hears after it."""
    tokens = spec.tokens
    with CachedDecoder(directory, spec, threads) as decoder:
        padding = Padding(None)
        prompt = [tokens.sot]
        if tokens.languages:
            state = decoder.start(features, (padding,))
            output, _ = decoder.step(np.array([prompt]), state, np.array([0], np.int64))
            languages = list(tokens.languages.values())
            prompt.append(languages[int(output.logits[0, 0, languages].argmax())])
        controls = (tokens.transcribe, tokens.no_timestamps)
        prompt += [token for token in controls if token is not None]
        state = decoder.start(features, (padding,))
        new = prompt
        words: list[int] = []
        while len(words) < N_WORDS:
            last = np.array([len(new) - 1], np.int64)
            output, state = decoder.step(np.array([new]), state, last)
            logits = output.logits[0, 0]
            logits[tokens.eot] = -np.inf  # the file is asked about words
            new = [int(logits.argmax())]
            words += new
    return prompt, words


def _mean_logprob(
    runner: HefRunner,
    side: str,
    features: FloatArray,
    prompt: list[int],
    words: list[int],
) -> float:
    """Return the mean log-probability of words with position rows from one side."""
    runner.positions = side
    tokens: IntArray = np.zeros((1, runner.length), np.int64)
    history = [*prompt, *words]
    tokens[0, : len(history)] = history
    try:
        with runner:
            logits = runner.run(tokens, features)
    except ModelError:
        if side == runner.shape.positions:
            raise
        return -np.inf  # there are no rows to add
    rows = logits[:, len(prompt) - 1 : len(history) - 1]
    logprobs = rows[0, np.arange(len(words)), words] - logsumexp(rows)[0]
    return float(logprobs.mean())
