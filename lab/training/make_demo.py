"""Makes the bundled demo recording: sentences never trained on, a seen voice, a little noise.

    python -m lab.training.make_demo src/whisper_hailo/assets

Writes `demo.flac` (16 kHz mono) and `demo.txt`. The run time cuts audio into windows of 9 s (10 s
less the margin), so the sentences come in two parts with a pause over the ninth second.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import soundfile

from lab.training.augment import NoiseBank, level
from lab.training.spoken import SAMPLE_RATE_HZ, speak
from lab.training.text.grammar import split_of
from lab.training.voices import Voice

PARTS = (
    ("Good morning, Oliver.", "What time is it in Vienna?"),
    ("Wake me up at twenty to ten on Thursday.", "See you on Saturday morning."),
)
VOICE = Voice("flite", "slt", pitch=0)
PART_S = 9.0
BEFORE_S = 0.3
PAUSE_S = 0.8
AFTER_S = 0.5
NOISE_DB = -35.0


def part(sentences: tuple[str, ...]) -> np.ndarray:
    """Returns the sentences with pauses: `(n_samples,)` float32, `PART_S` long.

    Raises:
        ValueError: a sentence may have been trained on, or they take too long.
    """
    audio = np.zeros(int(PART_S * SAMPLE_RATE_HZ), np.float32)
    at = int(BEFORE_S * SAMPLE_RATE_HZ)
    for sentence in sentences:
        if split_of(sentence) != "test":
            raise ValueError(
                f"{sentence!r} belongs to the trained sentences; choose another"
            )
        speech = speak(sentence, VOICE).astype(np.float32) / 32768
        if at + speech.size > audio.size - 0.1 * SAMPLE_RATE_HZ:
            raise ValueError(
                f"{sentences} take longer than {PART_S} s; choose shorter ones"
            )
        audio[at : at + speech.size] = speech
        at += speech.size + int(PAUSE_S * SAMPLE_RATE_HZ)
    return audio


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(description="Makes the bundled demo recording.")
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    audio = np.concatenate([part(sentences) for sentences in PARTS])
    audio = audio[: np.flatnonzero(audio)[-1] + int(AFTER_S * SAMPLE_RATE_HZ)]
    gain = level(audio) * 10 ** (NOISE_DB / 20)
    audio += gain * NoiseBank(seed=2).crop(audio.size, np.random.default_rng(0))
    soundfile.write(options.out / "demo.flac", audio, SAMPLE_RATE_HZ, subtype="PCM_16")
    text = " ".join(sentence for sentences in PARTS for sentence in sentences)
    (options.out / "demo.txt").write_text(text + "\n", encoding="utf-8")
    sys.stderr.write(f"{audio.size / SAMPLE_RATE_HZ:.1f} s: {text}\n")


if __name__ == "__main__":
    main()
