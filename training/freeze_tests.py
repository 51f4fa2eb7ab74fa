"""Makes the frozen test sets: clips of sentences that are never trained on, with references.

    python -m training.freeze_tests tests/data/micro

Sets: `seen` (trained voices), `unseen` (voices and an engine setting never trained on), `noisy`
(trained voices, noise 10 dB under the speech), `silence` (no speech; the reference is empty). A
clip is `<set>/<id>.ogg` with `<set>/<id>.txt`, a line of `manifest.jsonl` says how it was made.
The samples are the same on every run with the same engines; the OGG container is not, since its
serial number is random, so the manifest holds the hash of the samples before coding.
"""

import argparse
import hashlib
import json
from pathlib import Path
from random import Random

import numpy as np
import soundfile

from training.augment import NoiseBank, level, without_speech
from training.speech import SAMPLE_RATE_HZ, speak
from training.text.grammar import Grammar
from training.text.sentences import draw_sentence
from training.voices import Voice, trained_voice, unheard_voice

SIZES = {"seen": 60, "unseen": 36, "noisy": 36, "silence": 20}
SEED = "frozen 1"
NOISE_DB = {"seen": -45.0, "unseen": -45.0, "noisy": -10.0}
"""Level of the noise relative to the speech's (`augment.level`)."""
MAX_SPEECH_S = 8.2


def spoken_clip(name: str, number: int, bank: NoiseBank) -> tuple[np.ndarray, str, Voice]:
    """Returns `(n_samples,)` float32, what is said, and the voice, of one clip of a set."""
    rng = Random(f"{SEED}/{name}/{number}")
    noise_rng = np.random.default_rng([1, number, len(name)])
    draw_voice = unheard_voice if name == "unseen" else trained_voice
    while True:
        text, voice = draw_sentence(Grammar(), rng, "test"), draw_voice(rng)
        speech = speak(text, voice).astype(np.float32) / 32768
        if speech.size <= MAX_SPEECH_S * SAMPLE_RATE_HZ:
            break
    before, after = (int(rng.uniform(0.1, 0.35) * SAMPLE_RATE_HZ) for _ in range(2))
    audio = np.pad(speech, (before, after))
    gain = level(speech) * 10 ** (NOISE_DB[name] / 20)
    audio = audio + gain * bank.crop(audio.size, noise_rng)
    return np.clip(audio * 0.9, -1, 1).astype(np.float32), text, voice


def silent_clip(number: int, bank: NoiseBank) -> np.ndarray:
    """Returns `(n_samples,)` float32 without speech: zeros, noise, hum or clicks, 1.5 to 6 s."""
    rng = np.random.default_rng([2, number])
    return without_speech(int(rng.uniform(1.5, 6) * SAMPLE_RATE_HZ), bank, rng)


def write_clip(folder: Path, name: str, audio: np.ndarray, text: str) -> None:
    """Writes `<name>.ogg` and `<name>.txt`."""
    folder.mkdir(parents=True, exist_ok=True)
    soundfile.write(folder / f"{name}.ogg", audio, SAMPLE_RATE_HZ, format="OGG", subtype="VORBIS")
    (folder / f"{name}.txt").write_text(text + "\n" if text else "", encoding="utf-8")


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(description="Makes the frozen test sets.")
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    bank, lines = NoiseBank(seed=1), []
    for name, size in SIZES.items():
        for number in range(size):
            voice: Voice | None = None
            if name == "silence":
                audio, text = silent_clip(number, bank), ""
            else:
                audio, text, voice = spoken_clip(name, number, bank)
            clip = f"{name}-{number:03d}"
            write_clip(options.out / name, clip, audio, text)
            entry = {
                "id": clip,
                "set": name,
                "text": text,
                "voice": voice.as_json() if voice else None,
                "duration_s": round(audio.size / SAMPLE_RATE_HZ, 3),
                "sha256_samples": hashlib.sha256(audio.tobytes()).hexdigest(),
            }
            lines.append(json.dumps(entry) + "\n")
    (options.out / "manifest.jsonl").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
