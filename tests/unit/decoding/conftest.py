"""A tokenizer that tests of this folder share."""

from __future__ import annotations

from pathlib import Path

import pytest

import whisper_hailo
from whisper_hailo.checkpoint.tokens import read_special_tokens
from whisper_hailo.text.tokenizer import Tokenizer


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    """The bundled model's."""
    micro = Path(whisper_hailo.__file__).parent / "assets" / "micro"
    file = micro / "tokenizer.json"
    return Tokenizer.load(file, read_special_tokens(micro, file))
