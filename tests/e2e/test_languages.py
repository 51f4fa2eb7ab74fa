"""Languages through the real command: named, detected, refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.e2e.conftest import ASSETS, DEMO, DEMO_TEXT, ROOT, Command, one_line
from whisper_hailo_lab.clip_archives import read_manifest, unpack_clips
from whisper_hailo_lab.score import score_texts

CLIPS = unpack_clips()
GERMAN = CLIPS / "german" / "german-000.ogg"
RESULTS = ROOT / "lab" / "training" / "results" / "micro.json"
FIRST = ("transcribe", "--threads", 1, "--json", "--model")


@pytest.fixture(scope="module")
def english_only(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled checkpoint, declared as English-only."""
    checkpoint = tmp_path_factory.mktemp("checkpoints") / "micro.en"
    shutil.copytree(ASSETS / "micro", checkpoint)
    generation = checkpoint / "generation_config.json"
    config = json.loads(generation.read_text(encoding="utf-8"))
    generation.write_text(
        json.dumps({**config, "is_multilingual": False}), encoding="utf-8"
    )
    return checkpoint


def test_transcribe_auto_gives_all_language_probs(whisper_hailo: Command) -> None:
    printed = json.loads(
        whisper_hailo(*FIRST, "micro", "--language", "auto", DEMO).stdout
    )
    probabilities = printed["language_probs"]
    assert printed["language"] == next(iter(probabilities)) == "en"
    assert len(probabilities) == 99
    assert sum(probabilities.values()) == pytest.approx(1.0, abs=1e-3)
    assert list(probabilities.values()) == sorted(probabilities.values(), reverse=True)
    assert printed["text"] == DEMO_TEXT


def test_transcribe_language_accepts_name_and_code(whisper_hailo: Command) -> None:
    runs = [
        whisper_hailo(*FIRST, "micro", "--language", n, GERMAN)
        for n in ("de", "German")
    ]
    code, name = (json.loads(run.stdout) for run in runs)
    assert code["language"] == name["language"] == "de"
    assert code["text"] == name["text"]


def test_transcribe_and_translate_match_the_data_card(whisper_hailo: Command) -> None:
    entries = [entry for entry in read_manifest() if entry["set"] == "phrases"]
    clips = [CLIPS / "phrases" / f"{entry['id']}.ogg" for entry in entries]
    texts = {}
    for task in ("transcribe", "translate"):
        result = whisper_hailo(
            *FIRST,
            "micro",
            "--quantize",
            "none",
            "--language",
            "de",
            "--task",
            task,
            "--window",
            "10",
            "--no-timestamps",
            *clips,
            env={
                "WHISPER_HAILO_TRANSCRIBE_PAD_WITH": "zeros",
                "WHISPER_HAILO_TRANSCRIBE_TRIM_WINDOW": "false",
            },
        )
        assert result.returncode == 0, result.stderr
        printed = [json.loads(line) for line in result.stdout.splitlines()]
        texts[task] = [entry["text"] for entry in printed]
    claimed = json.loads(RESULTS.read_text(encoding="utf-8"))["windows"]["10"]
    for task, field, language, figures in (
        ("transcribe", "text", "de", claimed["phrases"]),
        ("translate", "translation", "en", claimed["translation"]),
    ):
        pairs = zip((entry[field] for entry in entries), texts[task], strict=True)
        words = score_texts(pairs, language=language).words
        assert words.reference_count == figures["words"]
        # Those figures come from another program, plain greedy decoding in torch.
        assert words.rate == pytest.approx(figures["wer"] / 100, abs=0.01)
    assert not set(texts["transcribe"]) & set(texts["translate"])


@pytest.mark.parametrize(
    "words", [("--language", "German"), ("--language", "xx"), ("--task", "translate")]
)
def test_transcribe_english_model_refuses_other_languages(
    whisper_hailo: Command, english_only: Path, words: tuple[str, ...]
) -> None:
    result = whisper_hailo(*FIRST, english_only, *words, DEMO)
    assert result.returncode == 2
    assert "English" in one_line(result)


def test_transcribe_english_model_detects_english(
    whisper_hailo: Command, english_only: Path
) -> None:
    result = whisper_hailo(*FIRST, english_only, "--language", "auto", DEMO)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["language_probs"] == {"en": 1.0}
