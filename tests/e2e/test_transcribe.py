"""Recordings become text: the real command, the bundled model, real files, languages."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf

from tests.e2e.conftest import (
    ASSETS,
    DEMO,
    DEMO_LINES,
    DEMO_TEXT,
    PATIENCE_S,
    ROOT,
    Command,
    heeds_interrupts,
    one_line,
)
from whisper_hailo_lab.clip_archives import read_manifest, unpack_clips
from whisper_hailo_lab.score import score_texts

CLIPS = unpack_clips() / "seen"
ALL_CLIPS = unpack_clips()
GERMAN = ALL_CLIPS / "german" / "german-000.ogg"
RESULTS = ROOT / "lab" / "training" / "results" / "micro.json"
FIRST = ("transcribe", "--threads", 1, "--json", "--model")


@pytest.fixture(scope="module")
def demo() -> tuple[np.ndarray, int]:
    samples, rate_hz = sf.read(DEMO, dtype="float32")
    return samples, rate_hz


def test_transcribe_demo_gives_the_right_words(whisper_hailo: Command) -> None:
    result = whisper_hailo("transcribe", "--model", "micro", DEMO)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == DEMO_LINES


def test_transcribe_json_has_timings_and_settings(
    whisper_hailo: Command,
) -> None:
    result = whisper_hailo(
        "transcribe", "--model", "micro", "--json", "--threads", 1, DEMO, "-v"
    )
    printed = json.loads(result.stdout)
    assert printed["text"] == DEMO_TEXT
    assert printed["audio"] == str(DEMO)
    assert printed["duration"] == pytest.approx(sf.info(DEMO).duration, abs=0.001)
    times = printed["timings_ms"]
    assert set(times) == {"load", "mel", "encode", "cross_kv", "decode", "total"}
    assert all(ms > 0 for ms in times.values())
    # The encoder runs ahead of the decoder: only times of one of them add up.
    assert times["mel"] + times["encode"] <= times["total"]
    assert times["cross_kv"] + times["decode"] <= times["total"]
    reasons = printed["settings"].pop("reasons")
    assert [reason.split(":")[0] for reason in reasons] == [
        "encoder onnx-int8", "decoder cached-int8",
    ]  # fmt: skip
    assert {*reasons, f"{DEMO}: English (100%)"} <= {*result.stderr.splitlines()}
    assert printed["settings"] == {
        "model": "micro", "encoder": "onnx-int8", "decoder": "cached-int8", "window_s": 20.0,
        "margin_s": 1.0, "pad_to": 1500, "repetition_penalty": 1.0, "eot_boost": 0.0,
        "quantization": "int8", "threads": 1, "windows": "overlap",
        "search": "greedy, beam 4 where unsure, then 0.4, 0.8",
        "timestamps": True, "batch_size": 4, "trim_window": True,
    }  # fmt: skip
    edges = [(segment["start"], segment["end"]) for segment in printed["segments"]]
    assert edges == sorted(edges)
    assert not any(segment["runaway"] for segment in printed["segments"])


@pytest.mark.parametrize(
    "words",
    [
        ["--quantize", "int8"],
        ["--quantize", "int8", "--encoder-quantize", "int8"],
        ["--preset", "balanced"],
        ["--threads", "2"],
    ],
)
def test_transcribe_other_options_give_the_same_words(
    whisper_hailo: Command, words: list[str]
) -> None:
    result = whisper_hailo("transcribe", "--model", "micro", *words, DEMO)
    assert result.stdout.strip() == DEMO_LINES


def test_transcribe_window_30_takes_a_recording_at_once(
    whisper_hailo: Command,
) -> None:
    clips = [CLIPS / f"seen-0{n:02d}" for n in range(12)]
    files = [clip.with_suffix(".ogg") for clip in clips]
    result = whisper_hailo(
        "transcribe", "--model", "micro", "--json", "--window", 30, *files
    )
    printed = [json.loads(line) for line in result.stdout.splitlines()]
    assert all(line["settings"]["margin_s"] == 0 for line in printed)
    assert all(
        len({part["seek"] for part in line["segments"]}) == 1 for line in printed
    )
    references = [
        clip.with_suffix(".txt").read_text(encoding="utf-8") for clip in clips
    ]
    texts = [line["text"] for line in printed]
    # Half as much again as the data card says of the whole set: a dozen clips are few.
    assert score_texts(zip(references, texts, strict=True)).words.rate <= 0.27, texts


@pytest.mark.parametrize(
    ("name", "rate_hz", "channels", "subtype"),
    [
        ("8k.wav", 8_000, 1, "PCM_16"),
        ("192k.wav", 192_000, 1, "PCM_24"),
        ("float.wav", 48_000, 2, "DOUBLE"),
        ("six.flac", 44_100, 6, "PCM_24"),
        ("compressed.mp3", 44_100, 2, None),
        ("compressed.ogg", 16_000, 1, None),
    ],
)
def test_transcribe_common_audio_formats_give_the_words(  # noqa: PLR0917
    whisper_hailo: Command,
    demo: tuple[np.ndarray, int],
    tmp_path: Path,
    name: str,
    rate_hz: int,
    channels: int,
    subtype: str | None,
) -> None:
    import soxr

    samples = soxr.resample(demo[0], demo[1], rate_hz)
    file = tmp_path / name
    sf.write(
        file, np.repeat(samples[:, None], channels, axis=1), rate_hz, subtype=subtype
    )
    result = whisper_hailo("transcribe", "--model", "micro", file)
    assert result.returncode == 0, result.stderr
    words = result.stdout.split()
    expected_words = DEMO_TEXT.split()
    # 8 kHz and lossy forms may cost a word; a wrong rate or channel order would cost them all.
    right = sum(word in words for word in expected_words)
    assert right >= (0.7 if name == "8k.wav" else 0.9) * len(expected_words), (
        result.stdout
    )


def test_transcribe_files_are_named_after_their_input(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    out = tmp_path / "deep" / "out"
    words = ["transcribe", "--model", "micro", "--output-dir", out, DEMO]
    assert whisper_hailo(*words).returncode == 0
    assert whisper_hailo(*words, "--format", "json").returncode == 0
    assert sorted(path.name for path in out.iterdir()) == ["demo.json", "demo.txt"]
    assert (out / "demo.txt").read_text(encoding="utf-8").split() == DEMO_TEXT.split()
    verbose = json.loads((out / "demo.json").read_text(encoding="utf-8"))
    assert verbose["text"] == DEMO_TEXT
    assert verbose["segments"][0]["id"] == 0


def test_transcribe_bad_file_does_not_stop_the_others(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.wav"
    bad.write_bytes(b"this is no audio at all")
    result = whisper_hailo("transcribe", "--model", "micro", "--json", bad, DEMO)
    assert result.returncode == 3
    failed, done = (json.loads(line) for line in result.stdout.splitlines())
    assert failed["exit_code"] == 3
    assert str(bad) in failed["error"]
    assert done["text"] == DEMO_TEXT


def test_transcribe_auto_detects_the_language(whisper_hailo: Command) -> None:
    result = whisper_hailo(
        "transcribe", "--model", "micro", "--language", "auto", "--json", DEMO
    )
    assert json.loads(result.stdout)["language"] == "en"


def test_transcriber_accepts_samples(demo: tuple[np.ndarray, int]) -> None:
    code = (
        "import sys, soundfile\n"
        "from whisper_hailo import Transcriber\n"
        "samples, rate_hz = soundfile.read(sys.argv[1], dtype='float32')\n"
        "with Transcriber.from_model('micro') as transcriber:\n"
        "    print(transcriber.transcribe(samples).text)\n"
    )
    assert demo[1] == 16_000
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(DEMO)],
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert result.stdout.strip() == DEMO_TEXT, result.stderr


def test_transcribe_interrupted_leaves_no_partial_file(
    environment: dict[str, str],
    whisper_hailo: Command,
    demo: tuple[np.ndarray, int],
    tmp_path: Path,
) -> None:
    whisper_hailo("transcribe", "--model", "micro", DEMO)  # the model is converted
    long = tmp_path / "long.wav"
    sf.write(long, np.tile(demo[0], 200), demo[1], subtype="PCM_16")
    out = tmp_path / "out"
    process = subprocess.Popen(
        [sys.executable, "-m", "whisper_hailo", "transcribe", "--model", "micro",
         "--output-dir", str(out), str(long)],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=heeds_interrupts,  # noqa: PLW1509 - it takes no lock
    )  # fmt: skip
    assert process.stderr is not None
    while "decoder cached" not in (line := process.stderr.readline()):
        assert line, "the process ended before its start"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "Traceback" not in errors

    assert not out.exists() or not list(out.iterdir())


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
    clips = [ALL_CLIPS / "phrases" / f"{entry['id']}.ogg" for entry in entries]
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
