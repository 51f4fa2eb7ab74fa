"""Recognises clips with a training-time model, and scores folders of shards while it is trained."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import jiwer
import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from lab.training import whisper_vocabulary as ids
from lab.training.kept_tokens import KeptTokens
from lab.training.mel import log_mel
from lab.training.model import Whisper
from lab.training.targets import Task
from whisper_hailo_lab.score import normalise_text

POSITIONS_PER_S = 50
N_AUDIO_CTX = 1500
BATCH = 20
SAMPLE_RATE_HZ = 16_000


@dataclass(frozen=True, slots=True)
class WordErrors:
    """Corpus word error rate in per cent, after Whisper's normaliser, with its counts."""

    wer: float
    words: int
    substitutions: int
    deletions: int
    insertions: int


def word_errors(
    references: list[str], hypotheses: list[str], language: str
) -> WordErrors:
    """Compares texts of the same order and language; references must hold words."""
    expected, got = (
        [normalise_text(text, "normalised", language) for text in texts]
        for texts in (references, hypotheses)
    )
    output = jiwer.process_words(expected, got)
    n_words = output.hits + output.substitutions + output.deletions
    wer = round(100 * output.wer, 2)
    return WordErrors(
        wer, n_words, output.substitutions, output.deletions, output.insertions
    )


@dataclass(frozen=True, slots=True)
class Recognizer:
    """A model with all that turns clips into texts.

    Attributes:
        model: trimmed or whole.
        kept: its vocabulary.
        tokenizer: Whisper's.
        window_s: fixed length of the encoder's input.
        pad_to: encoder positions thought of, counting zero rows.
    """

    model: Whisper
    kept: KeptTokens
    tokenizer: Tokenizer
    window_s: float = 10.0
    pad_to: int = N_AUDIO_CTX

    @property
    def n_padding(self) -> int:
        """Number of zero rows."""
        return max(0, self.pad_to - round(POSITIONS_PER_S * self.window_s))

    def _batches(self, clips: list[np.ndarray]) -> Iterator[Tensor]:
        for start in range(0, len(clips), BATCH):
            windows = [
                window(clip, self.window_s) for clip in clips[start : start + BATCH]
            ]
            yield torch.from_numpy(np.stack(windows))

    def tokens(
        self, clips: list[np.ndarray], task: Task
    ) -> tuple[list[list[int]], list[float]]:
        """Returns ids of text and times of `(n_samples,)` clips, and probabilities of no speech."""
        greedy = Greedy(self.model, self.kept)
        found = [
            greedy.run(audio, self.n_padding, task) for audio in self._batches(clips)
        ]
        return [line for lines, _ in found for line in lines], [
            p for _, ps in found for p in ps
        ]

    def texts(self, clips: list[np.ndarray], task: Task) -> list[str]:
        """Returns the texts of `(n_samples,)` clips, times left out."""
        lines, _ = self.tokens(clips, task)
        return [self.tokenizer.decode(line).strip() for line in lines]

    def languages(self, clips: list[np.ndarray]) -> list[str]:
        """Returns the detected language of `(n_samples,)` clips."""
        greedy = Greedy(self.model, self.kept)
        return [
            code
            for audio in self._batches(clips)
            for code in greedy.languages(audio, self.n_padding)
        ]


def shard_error(recognizer: Recognizer, folder: Path, n_clips: int) -> WordErrors:
    """Returns the errors on the first utterances of a folder of shards, of one language."""
    manifest = min(folder.glob("*.jsonl"))
    pcm = np.memmap(manifest.with_suffix(".pcm"), np.int16, "r")
    lines = manifest.read_text(encoding="utf-8").splitlines()[:n_clips]
    entries = [json.loads(line) for line in lines]
    clips = [np.asarray(pcm[e["offset"] :][: e["n_samples"]]) for e in entries]
    task = Task(entries[0].get("language", "en"))
    return word_errors(
        [e["text"] for e in entries], recognizer.texts(clips, task), task.language
    )


def window(audio: np.ndarray, window_s: float) -> np.ndarray:
    """Returns `audio` `(n_samples,)` int16 or float as float32, zero-padded or cut to a window."""
    samples = audio.astype(np.float32) / (32768 if audio.dtype == np.int16 else 1)
    size = int(window_s * SAMPLE_RATE_HZ)
    return np.pad(samples[:size], (0, max(0, size - samples.size)))


def prompt_of(task: Task) -> tuple[int, ...]:
    """Returns the ids that ask for a task."""
    language = ids.FIRST_LANGUAGE + ids.LANGUAGES.index(task.language)
    prompt = (ids.SOT, language, ids.TRANSLATE if task.translate else ids.TRANSCRIBE)
    return prompt if task.timestamps else (*prompt, ids.NO_TIMESTAMPS)


class Greedy:
    """The likeliest token each time, until the end.

    Of Whisper's rules for times only the first is kept: a text with times begins with one.
    """

    def __init__(self, model: Whisper, kept: KeptTokens) -> None:
        self._model = model
        self._kept = kept
        self._device = next(model.parameters()).device
        self._eot, self._no_speech = kept.rows([ids.EOT, ids.NO_SPEECH])
        is_time = [token >= ids.FIRST_TIMESTAMP for token in kept.ids]
        self._no_time = ~torch.tensor(is_time, device=self._device)
        languages = [ids.FIRST_LANGUAGE <= token < ids.TRANSLATE for token in kept.ids]
        self._no_language = ~torch.tensor(languages, device=self._device)

    @torch.no_grad()
    def run(
        self, audio: Tensor, n_padding: int, task: Task, max_tokens: int = 160
    ) -> tuple[list[list[int]], list[float]]:
        """Decodes windows `(batch, n_samples)` float32 with `n_padding` zero rows.

        Returns:
            Whisper's ids of text and times of each window, and its probability of no speech.
        """
        features = self._model.encoder(log_mel(audio.to(self._device)))
        prefix = self._kept.rows(list(prompt_of(task)))
        tokens = torch.tensor([prefix] * len(audio), device=self._device)
        at_sot = self._model.decoder(tokens[:, :1], features, n_padding)[:, 0]
        done = torch.zeros(len(audio), dtype=torch.bool, device=self._device)
        for step in range(max_tokens):
            logits = self._model.decoder(tokens, features, n_padding, last_only=True)[
                :, -1
            ]
            if task.timestamps and step == 0:
                logits[:, self._no_time] = -torch.inf
            chosen = logits.argmax(-1).masked_fill(done, self._eot)
            done |= chosen == self._eot
            tokens = torch.cat([tokens, chosen[:, None]], dim=1)
            if done.all():
                break
        texts = [
            [self._kept.ids[row] for row in line if row != self._eot]
            for line in tokens[:, len(prefix) :].tolist()
        ]
        return texts, at_sot.softmax(-1)[:, self._no_speech].tolist()

    @torch.no_grad()
    def languages(self, audio: Tensor, n_padding: int) -> list[str]:
        """Returns the likeliest language of windows `(batch, n_samples)` float32."""
        features = self._model.encoder(log_mel(audio.to(self._device)))
        sot = torch.tensor(
            [self._kept.rows([ids.SOT])] * len(audio), device=self._device
        )
        logits = self._model.decoder(sot, features, n_padding)[:, 0]
        logits[:, self._no_language] = -torch.inf
        best = logits.argmax(-1).tolist()
        return [ids.LANGUAGES[self._kept.ids[row] - ids.FIRST_LANGUAGE] for row in best]
