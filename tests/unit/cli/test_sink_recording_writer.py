"""Text printed as it comes, and the files of an interrupted run."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.results import transcript
from whisper_hailo.cli import progress
from whisper_hailo.cli.inputs import find_inputs
from whisper_hailo.cli.progress import Progress
from whisper_hailo.cli.sink import Sink, write_recording
from whisper_hailo.cli.transcribe_options import OutputOptions
from whisper_hailo.core.errors import AudioError
from whisper_hailo.core.types import Segment, Transcript
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.text.formats import render
from whisper_hailo.text.subtitles import SEGMENTS, Layout
from whisper_hailo.transcription.window_cache import CachedWindow, WindowCache


class Coming(Iterator[Segment]):
    """Segments of a recording, and the transcript as far as they have come.

    Attributes:
        before: called when a segment is asked for.
    """

    def __init__(self, whole: Transcript) -> None:
        self._whole = whole
        self._n_given = 0
        self.language_probs = {"de": 0.75, "en": 0.25}
        self.before: Callable[[], None] = lambda: None

    def __next__(self) -> Segment:
        self.before()
        if self._n_given == len(self._whole.segments):
            raise StopIteration
        self._n_given += 1
        return self._whole.segments[self._n_given - 1]

    @property
    def transcript(self) -> Transcript:
        return replace(self._whole, segments=self._whole.segments[: self._n_given])


@pytest.fixture
def segments() -> Coming:
    return Coming(transcript())


def sink(folder: Path, *formats: str, out: str = "", goes_on: bool = False) -> Sink:
    for name in ("a.wav", "b.wav"):
        (folder / name).write_text("some sound")
    place = folder / out if out else None
    entries = find_inputs([str(folder / "a.wav")])
    return Sink(OutputOptions(formats, place, goes_on), entries)


def follow(
    results: Sink,
    segments: Coming,
    at: int = 0,
    identity: str = "",
    begin: Callable[[Progress, WindowCache], None] = lambda _progress, _cache: None,
) -> None:
    def transcribe(
        _source: Any,
        *,
        progress: Progress,
        speaker_progress: Callable[[float, float | None], None],
        cache: WindowCache,
    ) -> Any:
        del speaker_progress
        begin(progress, cache)
        return segments

    write_recording(results.inputs[at], results, lambda: identity, transcribe)


def interrupt(results: Sink, segments: Coming, identity: str = "") -> None:
    """A run that ends when some is decoded."""

    def remember(_progress: Progress, cache: WindowCache) -> None:
        assert not cache.kept
        cache.remember([remembered(segments, transcript())])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        follow(results, segments, identity=identity, begin=remember)


def printed(
    results: Sink, segments: Coming, capsys: pytest.CaptureFixture[str]
) -> tuple[list[str], str]:
    """Output before each segment is read, and after the last."""
    output: list[str] = []
    segments.before = lambda: output.append(capsys.readouterr().out)
    follow(results, segments)
    return output, capsys.readouterr().out


def test_write_recording_prints_lines_as_they_come(
    tmp_path: Path, segments: Coming, capsys: pytest.CaptureFixture[str]
) -> None:
    output, rest = printed(sink(tmp_path, "txt"), segments, capsys)
    assert output == ["", "Grüße.\n", "All the rest.\n"]
    assert rest == ""


def test_write_recording_lines_have_times_and_name(
    tmp_path: Path, segments: Coming, capsys: pytest.CaptureFixture[str]
) -> None:
    results = sink(tmp_path, "txt")
    two = find_inputs([str(tmp_path / name) for name in ("a.wav", "b.wav")])
    follow(replace(results, inputs=two, timed=True), segments, at=1)
    output = capsys.readouterr()
    assert (
        output.out.splitlines()[0]
        == f"{tmp_path}/b.wav: [00:00.000 --> 00:09.000]  Grüße."
    )
    assert output.err == f"{tmp_path}/b.wav: German (75%)\n"


@pytest.mark.parametrize(
    ("fmt", "parts"),
    [
        ("srt", ["1\n00:00:00,000 --> 00:00:09,000\nGrüße.\n\n",
                 "2\n00:00:09,000 --> 00:00:12,500\nAll the rest.\n\n"]),
        ("vtt", ["WEBVTT\n\n00:00:00.000 --> 00:00:09.000\nGrüße.\n\n",
                 "00:00:09.000 --> 00:00:12.500\nAll the rest.\n\n"]),
        ("tsv", ["start\tend\ttext\n0\t9000\tGrüße.\n", "9000\t12500\tAll the rest.\n"]),
    ],
)  # fmt: skip
def test_write_recording_prints_cues_as_they_come(
    fmt: str, parts: list[str], tmp_path: Path, segments: Coming,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    results = sink(tmp_path, fmt)
    by_segment = Layout(cues=SEGMENTS)
    results = replace(results, output=replace(results.output, layout=by_segment))
    output, rest = printed(results, segments, capsys)
    assert output == ["", *parts]
    assert rest == ""
    assert "".join(parts) == render(transcript(), fmt, by_segment)


def test_write_recording_open_cue_waits(
    tmp_path: Path, segments: Coming, capsys: pytest.CaptureFixture[str]
) -> None:
    flowing = Layout(max_line_width=12, max_line_count=2)
    results = sink(tmp_path, "srt")
    results = replace(results, output=replace(results.output, layout=flowing))
    output, rest = printed(results, segments, capsys)
    assert output[:2] == ["", ""]
    assert "".join(output) + rest == render(transcript(), "srt", flowing)
    assert rest.endswith("rest.\n\n")


@pytest.mark.parametrize("fmt", ["txt", "srt", "vtt", "tsv"])
def test_write_recording_silence_prints_empty_format(
    fmt: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = replace(transcript(), segments=())
    follow(sink(tmp_path, fmt), Coming(silent))
    assert capsys.readouterr().out == render(silent, fmt)


@pytest.mark.parametrize("fmt", ["srt", "vtt", "tsv"])
def test_write_recording_early_failure_prints_nothing(
    fmt: str, tmp_path: Path, segments: Coming, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise AudioError("a.wav is broken")

    segments.before = fail
    with pytest.raises(AudioError):
        follow(sink(tmp_path, fmt), segments)
    assert capsys.readouterr().out == ""


def test_write_recording_json_waits_for_end(
    tmp_path: Path, segments: Coming, capsys: pytest.CaptureFixture[str]
) -> None:
    output, rest = printed(sink(tmp_path, "json"), segments, capsys)
    assert output == ["", "", ""]
    assert json.loads(rest)["text"] == "Grüße. All the rest."


def remembered(segments: Coming, whole: Transcript) -> CachedWindow:
    """Part of a recording that an interrupted run had."""
    del segments
    decoded = Decoded((1, 2), -0.1, 0.0, runaway=False)
    return CachedWindow(
        "key", decoded, whole.segments, 9.0, True, False, None, "de", (), "de", {}
    )


def test_write_recording_partial_file_is_kept_until_done(
    tmp_path: Path, segments: Coming, capsys: pytest.CaptureFixture[str]
) -> None:
    """With or without `--skip-existing`; of runs with other settings nothing is known."""
    results = sink(tmp_path, "txt", out="out", goes_on=True)
    path = tmp_path / "out" / "a.part.jsonl"
    interrupt(results, segments, "mine")
    output = capsys.readouterr().err
    assert output.startswith(f"{tmp_path}/a.wav: ")
    assert "0:12" in output
    assert "--skip-existing" not in output
    assert path.exists()
    for goes_on, identity, known in (
        (True, "mine", 12.5),
        (True, "other", 0.0),
        (False, "mine", 12.5),
    ):
        again = replace(results, output=replace(results.output, skip_existing=goes_on))
        seen: list[float] = []

        def look(
            _progress: Progress, cache: WindowCache, seen: list[float] = seen
        ) -> None:
            seen.append(cache.known_s)
            raise AudioError("not now")

        with pytest.raises(AudioError):
            follow(again, segments, identity=identity, begin=look)
        assert seen == [known]
        output = capsys.readouterr().err
        assert ("0:12" in output) == bool(known)
    follow(results, segments, identity="mine")
    assert "same command" not in capsys.readouterr().err
    assert [file.name for file in path.parent.iterdir()] == ["a.txt"]


def test_write_recording_speed_omits_resumed_audio(
    tmp_path: Path, segments: Coming, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    now = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    results = sink(tmp_path, "txt", out="out", goes_on=True)
    interrupt(results, segments)
    capsys.readouterr()

    def go_on(progress: Progress, _cache: WindowCache) -> None:
        progress(12.5, 112.5)
        now[0] = 20.0
        progress(32.5, 112.5)

    follow(results, segments, begin=go_on)
    line = "a.wav: 0:32 of 1:52, 1.0 x real time, 1:20 left\n"
    assert line in capsys.readouterr().err


@pytest.mark.parametrize("out", ["", "out"])
def test_write_recording_erases_progress_before_text(
    out: str, tmp_path: Path, segments: Coming, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """That line is taken away before any other: a text, its language, the name of a file."""
    monkeypatch.setattr(progress, "is_terminal", lambda: True)
    monkeypatch.setattr(progress, "terminal_width", lambda: 80)
    now = iter(range(0, 900, 20))
    monkeypatch.setattr(progress, "monotonic", lambda: float(next(now)))
    monkeypatch.setattr(sys, "stdout", sys.stderr)
    results = sink(tmp_path, "txt", out=out)

    def advance(progress: Progress, _cache: WindowCache) -> None:
        segments.before = lambda: progress(100.0, 600.0)

    follow(results, segments, begin=advance)
    parts = capsys.readouterr().err.split("\r\x1b[K")
    output = [part for part in parts if part and not part.endswith(" left")]
    language = f"{tmp_path}/a.wav: German (75%)\n"
    texts = ["Grüße.\n", "All the rest.\n"]
    written = f"wrote {tmp_path}/out/a.txt\n"
    assert "".join(output) == language + (written if out else "".join(texts))
    assert len([part for part in parts if part.endswith(" left")]) == 3
    assert parts[-1] in {"", written}


def test_write_recording_single_language_is_not_printed(
    tmp_path: Path, segments: Coming, capsys: pytest.CaptureFixture[str]
) -> None:
    for probs in ({}, {"de": 1.0}):
        segments.language_probs = probs
        follow(sink(tmp_path, "txt"), segments)
        assert capsys.readouterr().err == ""


def test_write_recording_without_text_leaves_no_file(
    tmp_path: Path, segments: Coming, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_progress: Progress, _cache: WindowCache) -> None:
        raise AudioError("it is broken")

    results = sink(tmp_path, "txt", out="out", goes_on=True)
    with pytest.raises(AudioError):
        follow(results, segments, begin=fail)
    assert capsys.readouterr().err == ""
    assert not (tmp_path / "out").exists()


def test_write_recording_interrupt_names_skip_existing(
    tmp_path: Path, segments: Coming, capsys: pytest.CaptureFixture[str]
) -> None:
    """Or the recordings before it would be transcribed again."""
    results = sink(tmp_path, "txt", out="out")
    two = find_inputs([str(tmp_path / name) for name in ("a.wav", "b.wav")])
    interrupt(replace(results, inputs=two), segments)
    assert "--skip-existing" in capsys.readouterr().err


def test_write_recording_interrupt_names_output_dir(
    tmp_path: Path, segments: Coming, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    def interrupt_now(_progress: Progress, _cache: WindowCache) -> None:
        raise KeyboardInterrupt

    for is_terminal in (False, True):
        monkeypatch.setattr("whisper_hailo.cli.sink.is_terminal", lambda: is_terminal)  # noqa: B023
        with pytest.raises(KeyboardInterrupt):
            follow(sink(tmp_path, "txt"), segments, begin=interrupt_now)
        assert ("--output-dir" in capsys.readouterr().err) == is_terminal
