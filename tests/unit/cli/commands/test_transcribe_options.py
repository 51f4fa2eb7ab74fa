"""Options of `transcribe`, through the command line, at their destination."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fakes.commands import given, missing_data
from whisper_hailo.cli.app import load_command, run
from whisper_hailo.cli.options import options_of
from whisper_hailo.cli.transcribe_options import ModelOptions
from whisper_hailo.core.protocols import Limits
from whisper_hailo.core.types import Segment, Settings, Timings, Transcript, Word
from whisper_hailo.decoding.options import PRESETS, DecodingOptions
from whisper_hailo.speakers.options import SpeakerOptions
from whisper_hailo.transcription.longform.options import Clip, LongOptions

TEXT = "Good morning to all of you."


def said() -> Transcript:
    """A word each half second."""
    words = tuple(
        Word(at / 2, at / 2 + 0.5, f" {word}", 0.9)
        for at, word in enumerate(TEXT.split())
    )
    segment = Segment(0.0, 3.0, TEXT, (1, 2), -0.1, 0.0, words=words)
    settings = Settings(
        "toy", "onnx-fp32", "cached", 10.0, 1.0, 1500, 1.0, 0.0, "none", 1
    )
    return Transcript("a.wav", 3.0, "en", "transcribe", (segment,), Timings(), settings)


class Heard(Iterator[Segment]):
    """Segments in the order in which a transcriber yields them."""

    def __init__(self, transcript: Transcript) -> None:
        self.transcript = transcript
        self.language_probs = transcript.language_probs
        self._left = iter(transcript.segments)

    def __next__(self) -> Segment:
        return next(self._left)


@dataclass
class Listener:
    """A stand-in for the transcriber that records its calls."""

    default_options = DecodingOptions()
    default_fallback = 0.2
    reasons: tuple[str, ...] = ()
    decoder: Any = field(default_factory=lambda: SimpleNamespace(limits=Limits()))
    asked: list[tuple[DecodingOptions, LongOptions, int | None]] = field(
        default_factory=list
    )
    helped_by: list[tuple[object, object]] = field(default_factory=list)
    identified: list[tuple[object, ...]] = field(default_factory=list)
    speakers: SpeakerOptions | None = None

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None: ...

    def check(self, options: DecodingOptions, long: LongOptions) -> None: ...

    def identity(self, *given: object) -> str:
        self.identified.append(given)
        return "toy"

    def segments(
        self,
        _source: object,
        options: DecodingOptions,
        progress: object,
        *,
        long: LongOptions,
        batch_size: int | None,
        cache: object,
        speaker_progress: object,
        speakers: SpeakerOptions | None = None,
    ) -> Heard:
        del speaker_progress
        self.speakers = speakers
        self.helped_by.append((progress, cache))
        self.asked.append((options, long, batch_size))
        return Heard(said())


@pytest.fixture(autouse=True)
def recordings(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder with the recordings that tests name; their content is never read."""
    folder = tmp_path_factory.mktemp("recordings")
    (folder / "a.wav").write_text("some sound")
    monkeypatch.chdir(folder)


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Listener:
    found = Listener()
    monkeypatch.setattr(ModelOptions, "transcriber", lambda _: found)
    return found


DECODING: list[tuple[str, str, object]] = [
    ("--language German", "language", "de"),
    ("--language auto --detect-each-window", "detect_each_window", True),
    ("--language AUTO --detect-each-window", "language", "auto"),
    ("--task translate --language de", "task", "translate"),
    ("--preset balanced", "anti_repetition", PRESETS["balanced"]),
    ("| pad-to = 700", "anti_repetition.pad_to", 700),
    ("| repetition-penalty = 1.2", "anti_repetition.repetition_penalty", 1.2),
    ("| eot-boost = 0.3", "anti_repetition.eot_boost", 0.3),
    ("| no-repeat-ngram = 3", "limits.no_repeat_ngram", 3),
    ("| max-tokens-per-second = 9", "limits.max_per_second", 9.0),
    ("| max-new-tokens = 28", "max_new_tokens", 28),
    ("| suppress-tokens = '5,6'", "limits.suppress", (5, 6)),
    ("| suppress-tokens = -1", "limits.suppress", None),
    ("| suppress-blank = false", "limits.suppress_blank", False),
    ("--beam-size 5", "search.beam_size", 5),
    ("| retry-beam-size = 3", "search.retry_beam_size", 3),
    ("| patience = 2", "search.patience", 2.0),
    ("| length-penalty = 0.6", "search.length_penalty", 0.6),
    ("--temperature 0.8", "search.temperatures", (0.8, 1.0)),
    ("--fallback 0.5", "search.temperatures", (0.0, 0.5, 1.0)),
    ("--fallback 0", "search.temperatures", (0.0,)),
    ("", "search.temperatures", (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)),
    ("--best-of 3", "search.best_of", 3),
    ("| seed = 7", "search.seed", 7),
    ("--no-speech-threshold 0.4", "thresholds.no_speech", 0.4),
    ("--logprob-threshold -0.5", "thresholds.logprob", -0.5),
    ("--compression-ratio-threshold 2", "thresholds.compression_ratio", 2.0),
    ("--no-speech-threshold none", "thresholds.no_speech", None),
    ("--logprob_threshold None", "thresholds.logprob", None),
    ("--compression_ratio_threshold None", "thresholds.compression_ratio", None),
    ("| pad-with = 'zeros'", "anti_repetition.pad_with", "zeros"),
    ("--timestamps", "timestamps", True),
    ("--format srt", "timestamps", False),
    ("--format vtt", "timestamps", False),
    ("--format tsv", "timestamps", False),
    ("--format json", "timestamps", False),
    ("--format srt --timestamps", "timestamps", True),
    ("--word-timestamps", "timestamps", False),
    ("| max-initial-timestamp = 0.5", "max_initial_timestamp_s", 0.5),
    ("", "word_timestamps", False),
    ("--word-timestamps", "word_timestamps", True),
    ("--initial-prompt hello", "prompts.initial_prompt", "hello"),
    ("| carry-initial-prompt = true", "prompts.carry_initial_prompt", True),
    ("| prefix = 'hello'", "prompts.prefix", "hello"),
    ("--hotwords hello", "prompts.hotwords", "hello"),
    ("| hotword-bonus = 1.25", "prompts.hotword_bonus", 1.25),
    ("--condition-on-previous-text", "prompts.condition_on_previous_text", True),
]

LONG: list[tuple[str, str, object]] = [
    ("--long vad", "strategy", "vad"),
    ("| overlap = 3", "overlap_s", 3.0),
    ("--clip-timestamps 1,2", "clips", (Clip(16_000, 32_000),)),
    ("--vad-threshold 0.4", "vad_threshold", 0.4),
    ("--no-skip-silence", "skip_silence", False),
    ("| vad-min-silence = 0.3", "min_silence_s", 0.3),
    ("| vad-speech-pad = 0.1", "speech_pad_s", 0.1),
    ("| trim-window = true", "trim_window", True),
    ("| trim-window = false", "trim_window", False),
]

PRINTED: list[tuple[str, str]] = [
    ("--format txt", "Good morning to all of you."),
    ("--json", '"audio": "'),
    ("--format srt", "00:00:00,000 --> 00:00:03,000\nGood morning to all of you.\n"),
    ("--format srt --cues segments", "Good morning to all of you.\n"),
    ("--format vtt --max-line-width 12", "Good morning\nto all of\nyou.\n"),
    ("--format srt --max-line-width 12 --max-line-count 1", "Good morning\n\n2\n"),
    ("--format srt --max-words-per-line 2", "Good morning\n\n2\n"),
    (
        "--format vtt --word-timestamps --highlight-words",
        "<u>Good</u> morning to all of you.",
    ),
]

SPEAKERS = {"speakers", "speaker_names", "speaker_models"}
"""Tried in `test_transcribe.py`."""

ELSEWHERE = {
    "audio",
    "output_dir",
    "skip_existing",
    "output_file",
    "batch_size",
    "channels",
    "paragraphs",
    *SPEAKERS,
}
"""Batches in a test below; the others on real recordings, in `tests/e2e/test_long.py`."""


@pytest.mark.parametrize(("words", "path", "expected"), DECODING)
def test_transcribe_decoding_option_reaches_transcriber(
    listener: Listener, tmp_path: Path, words: str, path: str, expected: object
) -> None:
    assert run(["transcribe", "a.wav", *given(words, tmp_path)]) == 0
    assert attrgetter(path)(listener.asked[0][0]) == expected


@pytest.mark.parametrize(("words", "path", "expected"), LONG)
def test_transcribe_window_option_reaches_transcriber(
    listener: Listener, tmp_path: Path, words: str, path: str, expected: object
) -> None:
    assert run(["transcribe", "a.wav", *given(words, tmp_path)]) == 0
    assert attrgetter(path)(listener.asked[0][1]) == expected
    assert attrgetter(path)(LongOptions()) != expected


@pytest.mark.parametrize(("words", "expected"), PRINTED)
@pytest.mark.usefixtures("listener")
def test_transcribe_format_option_changes_output(
    capsys: pytest.CaptureFixture[str], words: str, expected: str
) -> None:
    assert run(["transcribe", "a.wav", *words.split()]) == 0
    assert expected in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--format srt", True),
        ("--format vtt", True),
        ("--format txt", False),
        ("--format json", True),
        ("--format tsv", True),
        ("--json", True),
        ("--format srt --cues segments", False),
        ("--format srt --max-line-width 42", False),
        ("--format srt --max-line-width 42 --word-timestamps", True),
    ],
)
def test_transcribe_cues_request_word_timestamps(
    listener: Listener, words: str, expected: bool
) -> None:
    assert run(["transcribe", "a.wav", *words.split()]) == 0
    assert listener.asked[0][0].word_timestamps is expected


def test_transcribe_without_alignment_omits_word_times(listener: Listener) -> None:
    listener.decoder = SimpleNamespace(limits=Limits(aligns=False))
    assert run(["transcribe", "a.wav", "--format", "srt"]) == 0
    assert not listener.asked[0][0].word_timestamps


@pytest.mark.parametrize(
    ("words", "expected"), [("", False), ("--word-timestamps", True)]
)
@pytest.mark.usefixtures("listener")
def test_transcribe_json_beside_srt_has_words_if_requested(
    tmp_path: Path, words: str, expected: bool
) -> None:
    options = ["-f", "srt,json", "-o", str(tmp_path), *words.split()]
    assert run(["transcribe", "a.wav", *options]) == 0
    (segment,) = json.loads((tmp_path / "a.json").read_text())["segments"]
    assert bool(segment.get("words")) is expected


def test_transcribe_batch_size_reaches_transcriber(listener: Listener) -> None:
    assert run(["transcribe", "a.wav", "--batch-size", "4"]) == 0
    assert listener.asked[0][2] == 4


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("-f srt -f txt", {"srt", "txt"}),
        ("--format srt,txt", {"srt", "txt"}),
        ("-f SRT, --format srt", {"srt"}),
        ("-f json -f all", {"json", "srt", "tsv", "txt", "vtt"}),
        ("", {"txt"}),
    ],
)
@pytest.mark.usefixtures("listener")
def test_transcribe_several_formats_write_several_files(
    tmp_path: Path, words: str, expected: set[str]
) -> None:
    for name in ("demo.wav", "demo.mp3"):
        (tmp_path / name).write_text("some sound")
    out = tmp_path / "out"
    assert run(["transcribe", str(tmp_path), "-o", str(out), *words.split()]) == 0
    found = {path.name for path in out.iterdir()}
    assert found == {f"demo{kind}.{fmt}" for kind in ("", ".mp3") for fmt in expected}


@pytest.mark.parametrize(
    ("words", "data"),
    [
        ("-f srt,txt", "--format srt txt --output-dir"),
        ("-f all", "--format all --output-dir"),
        (
            "-f srt,doc",
            "--format doc txt srt vtt tsv json all",
        ),
    ],
)
@pytest.mark.usefixtures("listener")
def test_transcribe_impossible_formats_are_refused(
    capsys: pytest.CaptureFixture[str], words: str, data: str
) -> None:
    assert run(["transcribe", "a.wav", *words.split()]) == 2
    assert not missing_data(capsys.readouterr().err, data)


@pytest.mark.usefixtures("listener")
def test_transcribe_quiet_prints_no_messages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.wav").write_text("some sound")
    words = [
        "transcribe",
        str(tmp_path / "a.wav"),
        "-o",
        str(tmp_path),
        "--skip-existing",
    ]
    for quiet in ("-q", "-np", "--no-prints"):
        assert run([*words, quiet]) == 0
        assert capsys.readouterr().err == ""
    assert run(words) == 0
    assert "1 of 1" in capsys.readouterr().err


@pytest.mark.usefixtures("listener")
def test_transcribe_output_dir_expands_tilde(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shells leave the `~` behind a `=`, and a folder of that name is a trap."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run(["transcribe", "a.wav", "--output-dir=~/out"]) == 0
    assert (tmp_path / "out" / "a.txt").is_file()
    assert not Path("~").exists()


def test_transcribe_verbosity_works_before_and_after_command(
    listener: Listener, capsys: pytest.CaptureFixture[str]
) -> None:
    listener.reasons = ("encoder a: why", "decoder b: because")
    texts = {}
    for words in ("", "-v", "-q"):
        for line in (f"{words} transcribe a.wav", f"transcribe a.wav {words}"):
            assert run(line.split()) == 0
            texts[line.strip()] = capsys.readouterr().err.splitlines()
    assert texts["transcribe a.wav"] == ["encoder a, decoder b"]
    assert texts["-v transcribe a.wav"] == ["encoder a: why", "decoder b: because"]
    assert texts["transcribe a.wav -v"] == texts["-v transcribe a.wav"]
    assert texts["-q transcribe a.wav"] == texts["transcribe a.wav -q"] == []


@pytest.mark.usefixtures("listener")
def test_transcribe_threshold_without_number_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["transcribe", "a.wav", "--logprob-threshold", "low"]) == 2
    assert "'low'" in capsys.readouterr().err


def test_transcribe_tables_cover_all_options() -> None:
    rows: list[Any] = [*DECODING, *LONG, *PRINTED]
    tried = {
        name.replace("-", "_")
        for row in rows
        for name in re.findall(r"--([\w-]+)|([\w-]+) = ", row[0])
        for name in name
    }
    of_models = {option.name for option in options_of(ModelOptions)}
    command = load_command("transcribe")
    assert command is not None
    for name in {str(param.name) for param in command.params} - {
        "verbose",
        "quiet",
        "config",
        "help_all",
    }:
        known = tried | of_models | ELSEWHERE
        assert {name, f"no_{name}"} & known, f"{name} is tried nowhere"
