"""Reads shards of spoken utterances: texts as token rows, audio as memory-mapped samples.

Both kinds of manifest are read: the first (one English sentence a line, see `make_data`) and
version 2 (several sentences with times, two languages, translations, see `make_corpus`).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from lab.training.kept_tokens import KeptTokens
from lab.training.phones import Phones

SAMPLE_RATE_HZ = 16_000
_EDGE_S = 0.03
"""Silence that `speech.speak` leaves at both ends of an utterance."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of an utterance.

    Attributes:
        rows: its tokens as rows of the trimmed vocabulary.
        translation: the rows of its English translation, or `None`.
        phones: its phones, numbered.
        start_s: its start in the utterance.
        end_s: its end there.
        spans: start and end there of the word that each row belongs to; none if unknown.
    """

    rows: list[int]
    translation: list[int] | None
    phones: list[int]
    start_s: float
    end_s: float
    spans: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Utterance:
    """What one voice says in one go.

    Attributes:
        text: what is said, cased and punctuated.
        language: Whisper's code.
        sentences: in order.
        samples: `(n_samples,)` int16, 16 kHz.
    """

    text: str
    language: str
    sentences: tuple[Sentence, ...]
    samples: np.ndarray

    @property
    def group(self) -> str:
        """Which utterances may share a window with this one."""
        translated = all(
            sentence.translation is not None for sentence in self.sentences
        )
        return self.language + (" translated" if translated else "")


class Corpus:
    """All shards of some folders that are whole; `refresh` takes in those that came since.

    Args:
        folders: of shards.
        tokenizer: of the texts.
        kept: the trimmed vocabulary.
        phones: of the words.
        copies: how many times over utterances of a voice are held, by its name; 1 for all others.
    """

    def __init__(
        self,
        folders: list[Path],
        tokenizer: Tokenizer,
        kept: KeptTokens,
        phones: Phones,
        copies: Mapping[str, int] | None = None,
    ) -> None:
        self._folders = folders
        self._tokenizer = tokenizer
        self._phones = phones
        self._copies = copies or {}
        self._index = {token: row for row, token in enumerate(kept.ids)}
        self._seen: set[Path] = set()
        self.utterances: list[Utterance] = []
        self.n_skipped = 0

    def refresh(self) -> int:
        """Reads new shards; returns the number of utterances held."""
        manifests = [
            file for folder in self._folders for file in sorted(folder.glob("*.jsonl"))
        ]
        for manifest in manifests:
            if manifest not in self._seen:
                self._seen.add(manifest)
                self._read(manifest)
        return len(self.utterances)

    def _read(self, manifest: Path) -> None:
        pcm = np.memmap(manifest.with_suffix(".pcm"), np.int16, "r")
        for line in manifest.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            language = entry.get("language", "en")
            try:
                sentences = tuple(
                    self._sentence(given, language) for given in sentence_entries(entry)
                )
            except KeyError:  # a token or a word that this run does not know
                self.n_skipped += 1
                continue
            start = entry["offset"]
            samples = pcm[start : start + entry["n_samples"]]
            utterance = Utterance(entry["text"], language, sentences, samples)
            voice = entry["voice"]["name"] if self._copies else ""
            self.utterances += [utterance] * self._copies.get(voice, 1)

    def _rows(self, text: str) -> list[int]:
        return [self._index[token] for token in self._tokenizer.encode(" " + text).ids]

    def _sentence(self, given: dict[str, Any], language: str) -> Sentence:
        translation = given.get("translation")
        return Sentence(
            self._rows(given["text"]),
            None if translation is None else self._rows(translation),
            self._phones.of(given["text"], language),
            given["start_s"],
            given["end_s"],
            self._spans(given),
        )

    def _spans(self, given: dict[str, Any]) -> tuple[tuple[float, float], ...]:
        """Returns the place of each row's word, or nothing where words are not known."""
        words = given.get("words", [])
        if [word for word, _, _ in words] != given["text"].split():
            return ()
        rows = [len(self._rows(word)) for word, _, _ in words]
        return tuple(
            (start_s, end_s)
            for (_, start_s, end_s), n in zip(words, rows, strict=True)
            for _ in range(n)
        )


def sentence_entries(entry: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the sentences of a manifest line of either version.

    Raises:
        ValueError: the version is unknown.
    """
    version = entry.get("version", 1)
    if version == 1:
        end_s = entry["n_samples"] / SAMPLE_RATE_HZ - _EDGE_S
        return [{"text": entry["text"], "start_s": _EDGE_S, "end_s": end_s}]
    if version != 2:
        raise ValueError(f"manifest version {version}, this reader takes 1 and 2")
    return list(entry["sentences"])
