"""The bundled model on its frozen test sets: what the data card claims is true."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.e2e.conftest import ROOT
from whisper_hailo import ConvertOptions, Transcriber
from whisper_hailo.bench.score import evaluate

RESULTS = ROOT / "training" / "results" / "micro.json"
CLIPS = ROOT / "tests" / "data" / "micro"
SPOKEN = ("seen", "unseen", "noisy")

CASES = {
    "float32": ConvertOptions(),
    "int8": ConvertOptions("int8"),
    "int4": ConvertOptions("int4"),
    "int8, encoder too": ConvertOptions("int8", "int8"),
}
MOST_LOST = {"int8": 0.003, "int4": 0.01, "int8, encoder too": 0.003}

Heard: TypeAlias = dict[str, dict[str, list[tuple[str, str]]]]


def clips(name: str) -> list[Path]:
    return sorted(path for path in (CLIPS / name).iterdir() if path.suffix in {".ogg", ".flac"})


@pytest.fixture(scope="module")
def heard() -> Heard:
    """What was said and what was heard, by weights and set: some 17 s of one core for each."""
    found: Heard = {}
    for case, convert in CASES.items():
        with Transcriber.from_model("micro", convert=convert, window_s=10.0) as transcriber:
            found[case] = {
                name: [
                    (path.with_suffix(".txt").read_text("utf-8"), transcriber.transcribe(path).text)
                    for path in clips(name)
                ]
                for name in (*SPOKEN, "silence")
            }
    return found


def wer(heard: Heard, case: str) -> float:
    """Word error rate over all sets."""
    words = evaluate([pair for name in SPOKEN for pair in heard[case][name]]).words
    assert words.reference_count > 5000
    return words.rate


@pytest.mark.parametrize("name", SPOKEN)
def test_word_error_rates_are_those_of_the_data_card(heard: Heard, name: str) -> None:
    # The figures of the data card come from another program, plain greedy decoding in torch.
    claimed = json.loads(RESULTS.read_text(encoding="utf-8"))["windows"]["10"][name]
    words = evaluate(heard["float32"][name]).words
    assert words.reference_count == claimed["words"]
    assert words.rate == pytest.approx(claimed["wer"] / 100, abs=0.005)


@pytest.mark.parametrize("case", CASES)
def test_silence_gives_no_text(heard: Heard, case: str) -> None:
    assert [text for _, text in heard[case]["silence"]] == [""] * 60


@pytest.mark.parametrize("case", MOST_LOST)
def test_small_weights_cost_little(heard: Heard, case: str) -> None:
    assert wer(heard, case) <= wer(heard, "float32") + MOST_LOST[case]
