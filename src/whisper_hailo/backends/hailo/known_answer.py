"""A run with a known answer: the bundled recordings on the chip and on the CPU.

It is made at the first use of an encoder's HEF. An answer that is right is kept, by the hashes of
HEF and model and by the release of HailoRT; a wrong one is asked for again, since its cause may be
mended.
"""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np

from whisper_hailo.audio.log_mel import log_mel, pad_or_trim
from whisper_hailo.backends.hailo.feature_match import (
    RELATED,
    TOO_NOISY,
    FeatureMatch,
    explain_features,
    match_features,
)
from whisper_hailo.backends.hailo.hef_parts import HefEncoder
from whisper_hailo.backends.hailo.kept_answers import (
    answer_key,
    keep_answer,
    read_answers,
)
from whisper_hailo.backends.hailo.silence_match import SilenceMatch, match_silence
from whisper_hailo.backends.onnx import OnnxEncoder
from whisper_hailo.backends.silence import bundled_clips
from whisper_hailo.core.errors import WrongAnswerError, display_path
from whisper_hailo.core.spec import ENCODER_FILE, ModelSpec
from whisper_hailo.core.strict_json import MismatchError, decode
from whisper_hailo.core.types import (
    FRAMES_PER_SECOND,
    SAMPLE_RATE_HZ,
    FloatArray,
)

logger = logging.getLogger(__name__)

_KEPT: Final = ("", TOO_NOISY)
"""Problems of a file, or none; any other cause may be mended, and is asked for again."""


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """How a chip answered.

    Attributes:
        match: of the worse recording.
        silence: what the chip makes of silence; `None` if the answer is wrong.
        problem: what is wrong with the answer; empty if it is right.
    """

    match: FeatureMatch
    silence: SilenceMatch | None
    problem: str = ""

    def describe(self) -> str:
        """Return the answer in one line."""
        numbers = (
            f"{self.match.snr_db:.1f} dB, similarity {self.match.similarity:.2f}, size "
            f"{self.match.gain:.2f}"
        )
        if self.problem:
            return f"{self.problem} ({numbers})"
        if self.silence is not None:
            numbers = f"{numbers}, {self.silence.describe()}"
        return numbers


def require_known_answer(
    encoder: HefEncoder,
    directory: Path,
    spec: ModelSpec,
    threads: int = 0,
    *,
    noise: bool = False,
) -> FloatArray | None:
    """Try an encoder's HEF on the chip, unless it answered before.

    `encoder` is not open, and is closed again. The chip of a right answer stays open for the run
    that follows: a driver that hangs when it is released would end the program before its first
    text. `noise`: an answer that is the model's, and too noisy, is only warned of.

    Returns:
        the bias `(d_model,)` to take away from the encoder's features, if it has one.

    Raises:
        WrongAnswerError: its features are not those of the model.
        DeviceError: the chip cannot be used.
    """
    if ENCODER_FILE not in spec.files:
        logger.info(
            "%s is not compared with the CPU: %s has no encoder of its own",
            encoder.path.name,
            display_path(directory),
        )
        return None
    key = answer_key(encoder.path, spec, ENCODER_FILE)
    answer = _kept(key)
    if answer is None:
        with encoder:
            answer = ask(encoder, directory, spec, threads)
            if answer.problem in _KEPT:
                keep_answer(key, asdict(answer))
            if not answer.problem:
                encoder.lease.close_until_next()
    if answer.problem:
        error = wrong_answer(encoder, answer)
        if answer.problem != TOO_NOISY or not noise:
            raise error
        logger.warning("%s", error)
    if answer.silence is None:
        return None
    return answer.silence.bias(encoder.name)


def wrong_answer(encoder: HefEncoder, answer: KnownAnswer) -> WrongAnswerError:
    """Return the error of a wrong answer: what was seen, and what to do."""
    return WrongAnswerError(
        f"the Hailo chip gives wrong results with {display_path(encoder.path)}: "
        f"{answer.describe()}; check it with whisper-hailo doctor --chip, or use "
        "--encoder-backend onnx"
    )


def _kept(key: str) -> KnownAnswer | None:
    """Return the kept answer of a key; `None` if there is none, or a damaged one."""
    try:
        return decode(KnownAnswer, read_answers().get(key))
    except MismatchError:
        return None


def ask(
    encoder: HefEncoder, directory: Path, spec: ModelSpec, threads: int = 0
) -> KnownAnswer:
    """Run the bundled recordings on the chip and on the CPU; `encoder` is open."""
    mels = [first_window(clip, encoder.n_frames, spec) for clip in bundled_clips()]
    with OnnxEncoder(directory, spec, threads) as cpu:
        references = [cpu.encode(mel[np.newaxis])[0] for mel in mels]
        features = [encoder.encode(mel[np.newaxis])[0] for mel in mels]
        pairs = zip(features, references, strict=True)
        matches = [match_features(*pair) for pair in pairs]
        worst = min(matches, key=lambda match: (match.is_close, match.similarity))
        problem = ""
        if not worst.is_close:
            problem = _explain(encoder, mels, features, references)
        silence = None
        if problem in _KEPT:
            silence = match_silence(encoder, cpu)
    return KnownAnswer(worst, silence, problem)


def first_window(clip: FloatArray, n_frames: int, spec: ModelSpec) -> FloatArray:
    """Return the log-mel `(n_mels, n_frames)` of the beginning of a recording."""
    n_samples = n_frames * SAMPLE_RATE_HZ // FRAMES_PER_SECOND
    return log_mel(pad_or_trim(clip, n_samples), spec.dims.n_mels)


def _explain(
    encoder: HefEncoder,
    mels: list[FloatArray],
    features: list[FloatArray],
    references: list[FloatArray],
) -> str:
    """Return what is wrong with features of which some are not the CPU's."""
    # First: what the run before left may look like any other fault in the first run.
    if match_features(features[-1], references[-2]).similarity >= RELATED:
        return "features are those of the previous run"
    first = match_features(features[0], references[0])
    last = match_features(features[-1], references[-1])
    if first.similarity < RELATED and last.is_close:
        return "the features of the first run are wrong, later ones are correct"
    problem = explain_features(features[-1], references[-1])
    if problem:
        return problem
    again = encoder.encode(mels[-1][np.newaxis])[0]
    if match_features(again, features[-1]).similarity < RELATED:
        return "features differ from run to run of the same audio"
    # The same numbers in memory, with bins and frames in the other order.
    n_mels, n_frames = mels[-1].shape
    turned = mels[-1].reshape(n_frames, n_mels).T
    match = match_features(encoder.encode(turned[np.newaxis])[0], references[-1])
    if match.similarity >= RELATED:
        return f"the file expects a transposed mel: {match.snr_db:.0f} dB that way"
    return "features have nothing in common with the model's: the file is for another model"
