"""The bundled model on its frozen test sets: what the data card claims is true."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT
from whisper_hailo import ConvertOptions, Transcriber
from whisper_hailo.bench.score import evaluate

RESULTS = ROOT / "training" / "results" / "micro.json"
CLIPS = ROOT / "tests" / "data" / "micro"

INT8_LOSS = 0.01
INT4_LOSS = 0.01


def clips(name: str) -> list[Path]:
    return sorted(path for path in (CLIPS / name).iterdir() if path.suffix in {".ogg", ".flac"})


@pytest.fixture(scope="module")
def heard() -> dict[str, list[tuple[str, str]]]:
    """What was said and what was heard of the seen voices, by the decoder's weights."""
    found = {}
    for quantize in ("none", "int8", "int4"):
        convert = ConvertOptions(quantize=quantize)
        with Transcriber.from_model("micro", convert=convert, window_s=10.0) as transcriber:
            found[quantize] = [
                (path.with_suffix(".txt").read_text("utf-8"), transcriber.transcribe(path).text)
                for path in clips("seen")
            ]
    return found


def wer(pairs: list[tuple[str, str]]) -> float:
    return evaluate(pairs).words.rate


def test_unseen_sentences_in_seen_voices(heard: dict[str, list[tuple[str, str]]]) -> None:
    # The figures of the data card come from another program, plain greedy decoding in torch.
    claimed = json.loads(RESULTS.read_text(encoding="utf-8"))["windows"]["10"]["seen"]
    assert evaluate(heard["none"]).words.reference_count == claimed["words"] > 200
    assert wer(heard["none"]) == pytest.approx(claimed["wer"] / 100, abs=0.005)


def test_silence_gives_no_text() -> None:
    silent = clips("silence")
    with Transcriber.from_model("micro", window_s=10.0) as transcriber:
        texts = [transcriber.transcribe(path).text for path in silent]
    assert texts == [""] * 60


def test_small_weights_cost_little(heard: dict[str, list[tuple[str, str]]]) -> None:
    float32 = wer(heard["none"])
    assert wer(heard["int8"]) <= float32 + INT8_LOSS
    assert wer(heard["int4"]) <= float32 + INT4_LOSS
