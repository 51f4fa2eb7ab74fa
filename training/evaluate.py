"""Word error rates of a trained model, with counts."""

import json
from pathlib import Path

import jiwer
import numpy as np
import torch
from tokenizers import Tokenizer
from whisper_normalizer.english import EnglishTextNormalizer

from training.decode import greedy, window
from training.kept_tokens import KeptTokens
from training.model import Whisper

N_DEV = 160
_normalize = EnglishTextNormalizer()


def word_errors(references: list[str], hypotheses: list[str]) -> dict[str, float | int]:
    """Returns corpus WER (per cent) after Whisper's English normaliser, and its counts."""
    output = jiwer.process_words(
        [_normalize(text) for text in references], [_normalize(text) for text in hypotheses]
    )
    return {
        "wer": round(100 * output.wer, 2),
        "words": output.hits + output.substitutions + output.deletions,
        "substitutions": output.substitutions,
        "deletions": output.deletions,
        "insertions": output.insertions,
    }


def dev_error(
    model: Whisper, kept: KeptTokens, tokenizer: Tokenizer, folder: Path, window_s: float = 10.0
) -> dict[str, float | int]:
    """Returns the WER on the first utterances of a folder of shards, padded to full context."""
    manifest = min(folder.glob("*.jsonl"))
    pcm = np.memmap(manifest.with_suffix(".pcm"), np.int16, "r")
    entries = [json.loads(line) for line in manifest.read_text().splitlines()[:N_DEV]]
    hypotheses: list[str] = []
    for start in range(0, len(entries), 40):
        clips = [pcm[e["offset"] :][: e["n_samples"]] for e in entries[start : start + 40]]
        audio = torch.from_numpy(np.stack([window(clip, window_s) for clip in clips]))
        texts, _ = greedy(model, kept, audio, 1500 - round(50 * window_s), 40)
        hypotheses += [tokenizer.decode(text).strip() for text in texts]
    return {"dev_" + k: v for k, v in word_errors([e["text"] for e in entries], hypotheses).items()}
