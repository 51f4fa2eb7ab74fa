"""Greedy decoding of the training-time model, a batch of windows at once, without a cache."""

import numpy as np
import torch
from torch import Tensor

from lab.training import whisper_vocabulary as ids
from lab.training.kept_tokens import KeptTokens
from lab.training.mel import log_mel
from lab.training.model import Whisper
from lab.training.targets import Task

SAMPLE_RATE_HZ = 16_000


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
        self._model, self._kept = model, kept
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
