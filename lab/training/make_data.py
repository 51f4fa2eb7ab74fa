"""Speaks generated sentences into shards of raw audio, each with a manifest.

    python -m lab.training.make_data OUT --count 40000 --seed 1

A shard is `NNNNN.pcm` (16 kHz mono int16, utterances end to end) and `NNNNN.jsonl` (one line an
utterance: text, voice, offset and length in samples, SHA-256 of its samples). Each utterance has a
seed of its own made of `--seed` and its number, so any shard can be made again bit for bit, alone
and in any order; shards that exist are left as they are.
A manifest appears when its audio is whole.
"""

import argparse
import hashlib
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random

from lab.training.spoken import SAMPLE_RATE_HZ, engine_versions, speak
from lab.training.text.grammar import Grammar, Split, draw_sentence
from lab.training.voices import trained_voice

SHARD_SIZE = 500
MAX_SPEECH_S = 8.8


def make_shard(out: Path, shard: int, seed: int, split: Split) -> Path:
    """Writes the utterances `shard * SHARD_SIZE` and on; returns the manifest's path."""
    grammar = Grammar()
    manifest = out / f"{shard:05d}.jsonl"
    if manifest.exists():
        return manifest
    lines = []
    offset = 0
    with (out / f"{shard:05d}.pcm").open("wb") as pcm:
        for number in range(shard * SHARD_SIZE, (shard + 1) * SHARD_SIZE):
            rng = Random(f"{seed}/{number}")
            while True:
                text = draw_sentence(grammar, rng, split)
                voice = trained_voice(rng)
                audio = speak(text, voice)
                if audio.size <= MAX_SPEECH_S * SAMPLE_RATE_HZ:
                    break
            data = audio.tobytes()
            pcm.write(data)
            entry = {
                "number": number,
                "text": text,
                "voice": voice.as_json(),
                "offset": offset,
                "n_samples": audio.size,
                "sha256": hashlib.sha256(data).hexdigest(),
            }
            lines.append(json.dumps(entry) + "\n")
            offset += audio.size
    partial = manifest.with_suffix(".partial")
    partial.write_text("".join(lines), encoding="utf-8")
    return partial.rename(manifest)


def write_index(out: Path, seed: int, split: Split) -> None:
    """Writes `index.json`: what the set was made with, and the SHA-256 of each manifest.

    Manifests hold the hash of each utterance's samples, so equal hashes mean equal sets.
    """
    manifests = sorted(out.glob("*.jsonl"))
    index = {
        "seed": seed,
        "split": split,
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


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0] if __doc__ else None
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=40_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--split", choices=("train", "test"), default="train")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    n_shards = -(-options.count // SHARD_SIZE)
    with ProcessPoolExecutor(options.workers) as pool:
        jobs = [
            pool.submit(make_shard, options.out, k, options.seed, options.split)
            for k in range(n_shards)
        ]
        for done, job in enumerate(jobs, 1):
            sys.stderr.write(f"{job.result().name} ({done}/{n_shards})\n")
    write_index(options.out, options.seed, options.split)


if __name__ == "__main__":
    main()
