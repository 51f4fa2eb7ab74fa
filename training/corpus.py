"""Reads shards of spoken utterances: texts as token rows, audio as memory-mapped samples."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from training.kept_tokens import KeptTokens
from training.phones import Phones


@dataclass(frozen=True, slots=True)
class Utterance:
    """One spoken sentence.

    Attributes:
        text: what is said, cased and punctuated.
        rows: its tokens as rows of the trimmed vocabulary.
        phones: its phones, numbered.
        samples: `(n_samples,)` int16, 16 kHz.
    """

    text: str
    rows: list[int]
    phones: list[int]
    samples: np.ndarray


class Corpus:
    """All shards of a folder that are whole; `refresh` takes in those that came since."""

    def __init__(
        self, folder: Path, tokenizer: Tokenizer, kept: KeptTokens, phones: Phones
    ) -> None:
        self._folder = folder
        self._tokenizer = tokenizer
        self._phones = phones
        self._index = {token: row for row, token in enumerate(kept.ids)}
        self._seen: set[str] = set()
        self.utterances: list[Utterance] = []
        self.n_skipped = 0

    def refresh(self) -> int:
        """Reads new shards; returns the number of utterances held."""
        for manifest in sorted(self._folder.glob("*.jsonl")):
            if manifest.name not in self._seen:
                self._seen.add(manifest.name)
                self._read(manifest)
        return len(self.utterances)

    def _read(self, manifest: Path) -> None:
        pcm = np.memmap(manifest.with_suffix(".pcm"), np.int16, "r")
        for line in manifest.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            tokens = self._tokenizer.encode(" " + entry["text"]).ids
            if not all(token in self._index for token in tokens):
                self.n_skipped += 1
                continue
            rows = [self._index[token] for token in tokens]
            start = entry["offset"]
            samples = pcm[start : start + entry["n_samples"]]
            text = entry["text"]
            self.utterances.append(Utterance(text, rows, self._phones.of(text), samples))
