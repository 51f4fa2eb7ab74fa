"""A model that tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from whisper_hailo.transcription.transcriber import Transcriber


@pytest.fixture(scope="package")
def micro() -> Iterator[Transcriber]:
    """The bundled model as users get it, open."""
    with Transcriber.from_model("micro", threads=1) as transcriber:
        yield transcriber


@pytest.fixture(scope="package")
def micro_of_10_s() -> Iterator[Transcriber]:
    """The same with windows of 10 s, of which half a minute takes several."""
    with Transcriber.from_model("micro", window_s=10, threads=1) as transcriber:
        yield transcriber
