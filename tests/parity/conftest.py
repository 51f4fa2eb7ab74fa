"""OpenAI Whisper and ours with the same weights; both are imported where they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from whisper_hailo import Transcriber


@pytest.fixture(scope="module")
def theirs() -> Any:
    import torch

    from tests.parity import openai

    torch.set_num_threads(1)
    return openai.load()


@pytest.fixture(scope="module")
def ours() -> Iterator[Transcriber]:
    from tests.parity import openai

    with Transcriber.from_model(
        str(openai.CHECKPOINT), quantize="none", window_s=30, threads=1
    ) as transcriber:
        yield transcriber


@pytest.fixture
def knows_times(theirs: Any) -> None:
    """Without trained timestamps all of them are equally likely, and any choice is as good."""
    from whisper.tokenizer import get_tokenizer

    begin = get_tokenizer(multilingual=True).timestamp_begin
    rows = theirs.decoder.token_embedding.weight[begin:]
    if bool((rows == rows[0]).all()):
        pytest.skip("this checkpoint's timestamps are not trained")
