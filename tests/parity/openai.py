"""The same weights in OpenAI Whisper's own program."""

from __future__ import annotations

import itertools
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import whisper
from numpy.typing import NDArray
from safetensors.torch import load_file
from whisper.model import ModelDimensions, Whisper
from whisper.tokenizer import get_tokenizer

from whisper_hailo.audio.log_mel import log_mel, pad_or_trim
from whisper_hailo_lab.formats.ggml import openai_name

ROOT = Path(__file__).parents[2]
CHECKPOINT = Path(
    os.environ.get(
        "WHISPER_HAILO_PARITY_MODEL",
        ROOT / "src" / "whisper_hailo" / "assets" / "micro",
    )
)

LONG_S = float(os.environ.get("WHISPER_HAILO_PARITY_SECONDS", "60"))
"""WHISPER_HAILO_PARITY_SECONDS=600 does ten minutes: the eight cases that go on to their end take
four and a half of a quick core, in both programs together."""

# OpenAI's program leaves its vocabulary file open and uses what later torches deprecate.
THEIR_WARNINGS = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

TIE = 1e-4
"""Logits of the same pass in two programs, or of one program in one pass and token by token, differ
by up to 4e-5. What lies closer together than this may be chosen either way."""


def load(checkpoint: Path = CHECKPOINT) -> Whisper:
    """A Hugging Face checkpoint as a model of OpenAI's program, in float32."""
    config = json.loads((checkpoint / "config.json").read_text())
    generation = json.loads((checkpoint / "generation_config.json").read_text())
    dims = ModelDimensions(
        n_mels=config["num_mel_bins"],
        n_audio_ctx=config["max_source_positions"],
        n_audio_state=config["d_model"],
        n_audio_head=config["encoder_attention_heads"],
        n_audio_layer=config["encoder_layers"],
        n_vocab=config["vocab_size"],
        n_text_ctx=config["max_target_positions"],
        n_text_state=config["d_model"],
        n_text_head=config["decoder_attention_heads"],
        n_text_layer=config["decoder_layers"],
    )
    model = Whisper(dims)
    arrays = load_file(checkpoint / "model.safetensors")
    state = {
        openai_name(n.removeprefix("model.")): a.float()
        for n, a in arrays.items()
        if n != "proj_out.weight"
    }
    model.load_state_dict(state)
    heads = torch.zeros(dims.n_text_layer, dims.n_text_head, dtype=torch.bool)
    for layer, head in generation["alignment_heads"]:
        heads[layer, head] = True
    model.register_buffer("alignment_heads", heads.to_sparse(), persistent=False)
    return model.eval()


def mel_of(audio: NDArray[np.float32]) -> torch.Tensor:
    """Log-mel of one full window."""
    return whisper.log_mel_spectrogram(whisper.pad_or_trim(torch.from_numpy(audio)))


def distance(
    model: Whisper,
    mel: torch.Tensor,
    prompt: tuple[int, ...],
    texts: tuple[tuple[int, ...], tuple[int, ...]],
) -> float:
    """How far their logits of two texts of a window lie apart at the first token that differs.

    A text that is over before the other goes on with end-of-transcript.
    """
    eot = get_tokenizer(multilingual=True).eot
    pairs = itertools.zip_longest(*texts, fillvalue=eot)
    shared = [
        one for one, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)
    ]
    one, other = ((*text, eot)[len(shared)] for text in texts)
    with torch.no_grad():
        logits = model.decoder(
            torch.tensor([[*prompt, *shared]]), model.encoder(mel[None])
        )[0, -1]
    return abs(float(logits[one] - logits[other]))


class WindowMel:
    """Log-mel of a recording, made window by window as ours is.

    OpenAI's `transcribe` makes one spectrogram of the whole recording, whose floor depends on its
    loudest moment, and fills the last window with zeros of log-mel, a noise that nobody made. Both
    programs are given the same input here.
    """

    def __init__(self, audio: NDArray[np.float32]) -> None:
        self._audio = audio
        self.shape = (80, audio.size // 160 + 3000)

    def __getitem__(self, key: tuple[slice, slice]) -> torch.Tensor:
        frames = key[1]
        audio = self._audio[frames.start * 160 : frames.stop * 160]
        return torch.from_numpy(log_mel(pad_or_trim(audio, 480_000)))


class Likeliest:
    """Stands for torch's distribution: draws what is likeliest."""

    def __init__(self, logits: torch.Tensor) -> None:
        self._logits = logits

    def sample(self) -> torch.Tensor:
        return self._logits.argmax(dim=-1)


def hear_as_ours(patch: pytest.MonkeyPatch) -> None:
    """OpenAI's `transcribe` takes its log-mel from `WindowMel`."""

    def lazily(audio: NDArray[np.float32], *_: object, **__: object) -> WindowMel:
        return WindowMel(audio)

    patch.setattr(sys.modules["whisper.transcribe"], "log_mel_spectrogram", lazily)
