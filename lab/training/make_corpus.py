"""Speaks utterances of one to four sentences in two languages into shards, with all their times.

    python -m lab.training.make_corpus OUT --count 40000 --seed 2
    python -m lab.training.make_corpus DEV --count 500 --seed 78 --split test --kinds en

A shard is `NNNNN.pcm` (16 kHz mono int16, utterances end to end) and `NNNNN.jsonl`, version 2: one
line an utterance with language, text, sentences (text, translation, start, end, words with times),
voice, place in the audio, SHA-256 of its samples. Times are seconds from the utterance's start.

A shard is made by a process of its own from `--seed` and its number: engines that live in a process
carry state from one utterance to the next, so the shard is what can be made again bit for bit.
Shards that exist are left as they are; a manifest appears when its audio is whole.
"""

import argparse
import hashlib
import json
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from lab.training.engines import Engine, missing_engines, open_engine
from lab.training.make_data import SHARD_SIZE
from lab.training.spoken import (
    SAMPLE_RATE_HZ,
    SpokenSentence,
    engine_versions,
    speak_plan,
)
from lab.training.text.grammar import Split
from lab.training.text.plans import KINDS, Kind, Plan, draw_plan
from lab.training.voices import ENGINES, Voice, task_voice, unheard_task_voice

VERSION = 2
MAX_SPEECH_S = 28.0


@dataclass(frozen=True, slots=True)
class Order:
    """What a set is made of.

    Attributes:
        seed: of everything.
        split: which sentences.
        kinds: share of each kind of utterance.
        engines: those that may be used.
        unheard: whether to use the voices that are never trained on.
        max_s: longest utterance in seconds.
        scrambled: share of sentences that are words in any order, the language's own if `None`.
            Rare words are as frequent there as any, and only the sound tells them.
    """

    seed: int
    split: Split
    kinds: dict[Kind, float]
    engines: tuple[str, ...] = ENGINES
    unheard: bool = False
    max_s: float = MAX_SPEECH_S
    scrambled: float | None = None


class Speakers:
    """The engines of this process, each started when first used."""

    def __init__(self) -> None:
        self._open: dict[str, Engine] = {}

    def of(self, voice: Voice) -> Engine:
        """Returns the engine of a voice."""
        if voice.engine not in self._open:
            self._open[voice.engine] = open_engine(voice.engine)
        return self._open[voice.engine]


def sentence_entry(sentence: SpokenSentence, translation: str | None) -> dict[str, Any]:
    """Returns a sentence as it stands in a manifest, times rounded to milliseconds."""
    entry: dict[str, Any] = {
        "text": sentence.text,
        "start_s": round(sentence.start_s, 3),
        "end_s": round(sentence.end_s, 3),
        "words": [
            [w.text, round(w.start_s, 3), round(w.end_s, 3)] for w in sentence.words
        ],
    }
    return entry | ({"translation": translation} if translation else {})


def utterance(
    order: Order, number: int, speakers: Speakers
) -> tuple[np.ndarray, Plan, list[SpokenSentence], Voice]:
    """Draws until an utterance is short enough; returns samples, plan, sentences and voice."""
    rng = Random(f"{order.seed}/{number}")
    draw_voice = unheard_task_voice if order.unheard else task_voice
    while True:
        plan = draw_plan(rng, order.split, order.kinds, order.scrambled)
        voice = draw_voice(rng, plan.language, order.engines)
        audio, sentences = speak_plan(speakers.of(voice), plan, voice, rng)
        if audio.size <= order.max_s * SAMPLE_RATE_HZ:
            return audio, plan, sentences, voice


def make_shard(out: Path, shard: int, order: Order) -> Path:
    """Writes the utterances `shard * SHARD_SIZE` and on; returns the manifest's path."""
    manifest = out / f"{shard:05d}.jsonl"
    if manifest.exists():
        return manifest
    lines = []
    offset = 0
    speakers = Speakers()
    with manifest.with_suffix(".pcm").open("wb") as pcm:
        for number in range(shard * SHARD_SIZE, (shard + 1) * SHARD_SIZE):
            audio, plan, sentences, voice = utterance(order, number, speakers)
            data = audio.tobytes()
            pcm.write(data)
            translations = plan.translations or (None,) * len(sentences)
            pairs = zip(sentences, translations, strict=True)
            entry = {
                "version": VERSION,
                "number": number,
                "language": plan.language,
                "text": " ".join(plan.sentences),
                "sentences": [sentence_entry(*pair) for pair in pairs],
                "voice": voice.as_json(),
                "offset": offset,
                "n_samples": audio.size,
                "sha256": hashlib.sha256(data).hexdigest(),
            }
            lines.append(json.dumps(entry, ensure_ascii=False) + "\n")
            offset += audio.size
    partial = manifest.with_suffix(".partial")
    partial.write_text("".join(lines), encoding="utf-8")
    return partial.rename(manifest)


def write_index(out: Path, order: Order) -> None:
    """Writes `index.json`: what the set was made with, and the SHA-256 of each manifest."""
    manifests = sorted(out.glob("*.jsonl"))
    index = {
        "version": VERSION,
        "order": asdict(order),
        "engines": engine_versions(),
        "utterances": len(manifests) * SHARD_SIZE,
        "manifests": {
            file.name: hashlib.sha256(file.read_bytes()).hexdigest()
            for file in manifests
        },
    }
    (out / "index.json").write_text(
        json.dumps(index, indent=1) + "\n", encoding="utf-8"
    )


def chosen_order(options: argparse.Namespace) -> Order:
    """Returns the order of a command line; ends the program if an engine is missing."""
    without = set(options.without.split(",")) - {""}
    engines = tuple(name for name in ENGINES if name not in without)
    if lacking := missing_engines(engines):
        packages = " ".join(lacking.values())
        names = ",".join([*sorted(without), *lacking])
        sys.exit(
            f"missing speech engines or voices: {', '.join(lacking)}; install the packages "
            f"{packages}, or make another set without them: --without {names}"
        )
    kinds = {kind: KINDS[kind] for kind in options.kinds.split(",")}
    return Order(
        options.seed,
        options.split,
        kinds,
        engines,
        options.unheard,
        options.max_s,
        options.scrambled,
    )


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0] if __doc__ else None
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=40_000)
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--split", choices=("train", "test"), default="train")
    parser.add_argument(
        "--kinds", default=",".join(KINDS), help="of en, de and phrases"
    )
    parser.add_argument(
        "--unheard", action="store_true", help="voices that are never trained on"
    )
    parser.add_argument("--without", default="", help="engines to leave out, by comma")
    parser.add_argument(
        "--max-s", type=float, default=MAX_SPEECH_S, help="longest utterance"
    )
    parser.add_argument(
        "--scrambled", type=float, help="share of sentences in any order"
    )
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    order = chosen_order(options)
    options.out.mkdir(parents=True, exist_ok=True)
    n_shards = -(-options.count // SHARD_SIZE)
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.workers, fresh, max_tasks_per_child=1) as pool:
        jobs = [pool.submit(make_shard, options.out, k, order) for k in range(n_shards)]
        for done, job in enumerate(jobs, 1):
            sys.stderr.write(f"{job.result().name} ({done}/{n_shards})\n")
    write_index(options.out, order)


if __name__ == "__main__":
    main()
