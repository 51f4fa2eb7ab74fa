"""Drafts against decoding from scratch: the same text, how many passes, how much time.

    python benchmarks/drafts.py [--model micro] [--quantize none] [--drafts 3000] [--json]

Clips of the frozen test sets are cut and edited at random (length, loudness, noise, a gap, another
clip behind) and heard twice: from scratch, and with a draft made from the true text by random
edits, from the text of a shorter cut, or from another clip's. A different text counts as a near-tie
when the from-scratch run had a choice within `NEAR_TIE`, otherwise as wrong.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from statistics import median

import numpy as np

from whisper_hailo import ConvertOptions, Transcriber
from whisper_hailo.audio import load_audio
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.decoding.options import PRESETS, DecodingOptions
from whisper_hailo.hearing.buffers import Draft

DATA = Path(__file__).parents[1] / "tests" / "data" / "micro"


def edited_audio(clips: list[FloatArray], rng: np.random.Generator) -> FloatArray:
    """A random buffer of up to 9 s."""
    audio = clips[rng.integers(len(clips))]
    audio = audio[: rng.integers(1600, max(1601, audio.size))] * np.float32(rng.uniform(0.2, 1.5))
    kind = rng.integers(4)
    if kind == 1:
        audio = audio + rng.normal(0, rng.uniform(0.001, 0.05), audio.size).astype(np.float32)
    elif kind == 2:
        begin = int(rng.integers(audio.size))
        audio[begin : begin + int(rng.integers(8000))] = 0
    elif kind == 3:
        audio = np.concatenate([audio, clips[rng.integers(len(clips))]])
    return audio[: 9 * SAMPLE_RATE_HZ]


def edited_tokens(
    tokens: tuple[int, ...], other: tuple[int, ...], rng: np.random.Generator
) -> tuple[int, ...]:
    """A draft made from the truth: changed, shortened, lengthened, or of something else."""
    draft = list(tokens)
    for _ in range(rng.integers(4)):
        at = int(rng.integers(len(draft) + 1))
        kind = rng.integers(5)
        word = int(rng.choice(other)) if other else 0
        if kind == 0:
            draft[at:at] = [word]
        elif kind == 1:
            del draft[at:]
        elif kind == 2:
            del draft[at : at + int(rng.integers(1, 4))]
        elif kind == 3:
            draft[at : at + 1] = [word]
        else:
            draft[at:] = other
    return tuple(draft)


def main() -> None:
    """Run, and print one table or one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="micro")
    parser.add_argument("--quantize", default="none")
    parser.add_argument("--drafts", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", type=int, default=60, help="most tokens of a buffer")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    paths = sorted(path for path in DATA.rglob("*.ogg"))
    clips = [load_audio(path) for path in paths]
    convert = ConvertOptions(quantize=arguments.quantize)
    counts: Counter[str] = Counter()
    plain_ms: list[float] = []
    drafted_ms: list[float] = []
    other: tuple[int, ...] = ()
    with Transcriber.from_model(arguments.model, convert=convert, threads=1) as transcriber:
        for index in range(arguments.drafts):
            cures = PRESETS[("conservative", "balanced", "aggressive")[index % 3]]
            options = DecodingOptions(cures=cures, max_new_tokens=arguments.budget)
            audio = edited_audio(clips, rng)
            plain = transcriber.hear(audio, options)
            draft = edited_tokens(plain.tokens, other, rng)
            drafted = transcriber.hear(audio, options, Draft(draft))
            other = plain.tokens
            counts["same"] += drafted.tokens == plain.tokens
            if drafted.tokens != plain.tokens:
                counts["near-tie" if plain.near_ties or drafted.near_ties else "wrong"] += 1
            counts["with near-ties"] += plain.near_ties > 0
            counts["plain passes"] += plain.passes
            counts["drafted passes"] += drafted.passes
            plain_ms.append(plain.timings.decode_ms)
            drafted_ms.append(drafted.timings.decode_ms)
    result = {
        "model": arguments.model,
        "quantize": arguments.quantize,
        "drafts": arguments.drafts,
        **dict(sorted(counts.items())),
        "plain decode_ms median": round(median(plain_ms), 2),
        "drafted decode_ms median": round(median(drafted_ms), 2),
    }
    if arguments.json:
        print(json.dumps(result))
    else:
        print("\n".join(f"{name:>26}  {value}" for name, value in result.items()))


if __name__ == "__main__":
    main()
