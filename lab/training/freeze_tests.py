"""Makes the frozen test sets: clips of sentences that are never trained on, with all that is known.

    python -m lab.training.freeze_tests tests/data/micro

Sets: `seen` (English, trained voices), `unseen` (voices and an engine setting never trained on),
`noisy` (trained voices, noise 10 dB under the speech), `german`, `phrases` (German with an English
translation), `long` (English, up to 28 s), `silence` (no speech; the reference is empty). A clip is
`<id>.ogg` with `<id>.txt` in `<set>.zip`; its line of `manifest.jsonl` has language, sentences with
times, words with times, translation and voice. The samples are the same on every run with the same
engines; the OGG container is not, since its serial number is random, so the manifest holds the hash
of the samples before coding.
"""

import argparse
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import soundfile

from lab.training.augment import NoiseBank, level, without_speech
from lab.training.make_corpus import Speakers, sentence_entry
from lab.training.spoken import SAMPLE_RATE_HZ, SpokenSentence, speak_plan
from lab.training.text.plans import Kind, Plan, draw_plan
from lab.training.voices import Voice, task_voice, unheard_task_voice
from whisper_hailo_lab.clip_archives import MANIFEST, pack_clips

SEED = "frozen 2"
SHORT_S = (2.5, 8.4)
"""Speech of a clip that fits a 10 s window with its margin."""
COMPRESSION = 0.93
"""As libsndfile counts it for Opus, 0 to 1: some 24 kbit/s."""


@dataclass(frozen=True, slots=True)
class TestSet:
    """What a set of spoken clips is made of.

    Attributes:
        clips: their number.
        kind: kind of utterance.
        noise_db: level of the noise relative to the speech's (`augment.level`).
        unheard: whether to use the voices that are never trained on.
        speech_s: shortest and longest speech.
    """

    clips: int
    kind: Kind = "en"
    noise_db: float = -45.0
    unheard: bool = False
    speech_s: tuple[float, float] = SHORT_S


SPOKEN = {
    "seen": TestSet(160),
    "unseen": TestSet(160, unheard=True),
    "noisy": TestSet(160, noise_db=-10.0),
    "german": TestSet(190, "de"),
    "phrases": TestSet(40, "phrases"),
    "long": TestSet(12, speech_s=(18.0, 27.5)),
}
N_SILENT = 60


@dataclass(frozen=True, slots=True)
class Clip:
    """`(n_samples,)` float32 of one test clip and what is true of it."""

    audio: np.ndarray
    plan: Plan | None
    sentences: list[dict[str, Any]]
    voice: Voice | None


def spoken_clip(
    name: str, given: TestSet, number: int, bank: NoiseBank, speakers: Speakers
) -> Clip:
    """Draws clip `number` of a set until its length fits."""
    rng = Random(f"{SEED}/{name}/{number}")
    noise_rng = np.random.default_rng([1, number, len(name)])
    draw_voice = unheard_task_voice if given.unheard else task_voice
    while True:
        plan = draw_plan(rng, "test", {given.kind: 1.0})
        voice = draw_voice(rng, plan.language)
        samples, spoken = speak_plan(speakers.of(voice), plan, voice, rng)
        if given.speech_s[0] <= samples.size / SAMPLE_RATE_HZ <= given.speech_s[1]:
            break
    speech = samples.astype(np.float32) / 32768
    before, after = (int(rng.uniform(0.1, 0.35) * SAMPLE_RATE_HZ) for _ in range(2))
    gain = level(speech) * 10 ** (given.noise_db / 20)
    audio = np.pad(speech, (before, after))
    audio = audio + gain * bank.crop(audio.size, noise_rng)
    translations = plan.translations or (None,) * len(spoken)
    sentences = [
        sentence_entry(_later(sentence, before / SAMPLE_RATE_HZ), translation)
        for sentence, translation in zip(spoken, translations, strict=True)
    ]
    return Clip(np.clip(audio * 0.9, -1, 1).astype(np.float32), plan, sentences, voice)


def _later(sentence: SpokenSentence, by_s: float) -> SpokenSentence:
    """Returns a sentence whose times are all `by_s` later."""
    words = tuple(
        type(w)(w.text, w.start_s + by_s, w.end_s + by_s) for w in sentence.words
    )
    return SpokenSentence(
        sentence.text, sentence.start_s + by_s, sentence.end_s + by_s, words
    )


def silent_clip(number: int, bank: NoiseBank) -> Clip:
    """Returns a clip without speech: zeros, noise, hum or clicks, 1.5 to 6 s."""
    rng = np.random.default_rng([2, number])
    n_samples = int(rng.uniform(1.5, 6) * SAMPLE_RATE_HZ)
    return Clip(without_speech(n_samples, bank, rng), None, [], None)


def write_clip(folder: Path, name: str, clip: Clip) -> dict[str, Any]:
    """Writes `<name>.ogg` and `<name>.txt`; returns the manifest's entry."""
    folder.mkdir(parents=True, exist_ok=True)
    text = " ".join(clip.plan.sentences) if clip.plan else ""
    soundfile.write(
        folder / f"{name}.ogg",
        clip.audio,
        SAMPLE_RATE_HZ,
        format="OGG",
        subtype="OPUS",
        compression_level=COMPRESSION,
    )
    (folder / f"{name}.txt").write_text(text + "\n" if text else "", encoding="utf-8")
    entry: dict[str, Any] = {
        "id": name,
        "set": folder.name,
        "language": clip.plan.language if clip.plan else None,
        "text": text,
        "sentences": clip.sentences,
        "voice": clip.voice.as_json() if clip.voice else None,
        "duration_s": round(clip.audio.size / SAMPLE_RATE_HZ, 3),
        "sha256_samples": hashlib.sha256(clip.audio.tobytes()).hexdigest(),
    }
    if clip.plan and clip.plan.translations:
        entry["translation"] = " ".join(clip.plan.translations)
    return entry


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(description="Makes the frozen test sets.")
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    bank = NoiseBank(seed=1)
    speakers = Speakers()
    entries = []
    for name, given in SPOKEN.items():
        for number in range(given.clips):
            clip = spoken_clip(name, given, number, bank, speakers)
            entries.append(write_clip(options.out / name, f"{name}-{number:03d}", clip))
    for number in range(N_SILENT):
        clip = silent_clip(number, bank)
        entries.append(
            write_clip(options.out / "silence", f"silence-{number:03d}", clip)
        )
    lines = [json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries]
    (options.out / MANIFEST).write_text("".join(lines), encoding="utf-8")
    pack_clips(options.out)


if __name__ == "__main__":
    main()
