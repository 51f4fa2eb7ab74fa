"""Destinations of results: folders, files by their suffix, and names of whisper.cpp."""

from __future__ import annotations

from pathlib import Path

import pytest

from whisper_hailo.cli.inputs import Input
from whisper_hailo.cli.sink import Sink
from whisper_hailo.cli.transcribe_options import OutputOptions
from whisper_hailo.core.errors import OptionError

TALK = Input("talk.mp3", Path("talk.mp3"), Path("talk"))


def files(output: OutputOptions) -> list[str]:
    return [str(path) for _, path in Sink(output, [TALK]).result_files(TALK)]


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (OutputOptions(output_dir=Path("subs")), ["subs/talk.txt"]),
        (OutputOptions(output_dir=Path("subs/a.srt")), ["subs/a.srt"]),
        (OutputOptions(("srt",), Path("a.b.SRT")), ["a.b.SRT"]),
        (OutputOptions(("srt", "vtt"), output_file=Path("a")), ["a.srt", "a.vtt"]),
        (OutputOptions(("srt",), Path(), output_file=Path("a.srt")), ["a.srt"]),
        (
            OutputOptions(("vtt",), Path("subs"), output_file=Path("a.b")),
            ["subs/a.b.vtt"],
        ),
    ],
)
def test_result_files_follow_output_names(
    output: OutputOptions, expected: list[str]
) -> None:
    assert files(output) == expected


def test_result_files_folder_with_suffix_is_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("old.srt").mkdir()
    assert files(OutputOptions(("srt",), Path("old.srt"))) == ["old.srt/talk.srt"]


@pytest.mark.parametrize("formats", [("vtt",), ("srt", "vtt"), ("all",)])
def test_output_options_suffix_of_other_format_is_refused(
    formats: tuple[str, ...],
) -> None:
    with pytest.raises(OptionError, match=r"--output-dir talk$"):
        OutputOptions(formats, Path("talk.srt"))


def test_output_options_unknown_suffix_is_refused() -> None:
    with pytest.raises(OptionError, match=r"\.ass\b"):
        OutputOptions(output_dir=Path("talk.ass"))


def test_sink_output_file_for_several_inputs_is_refused() -> None:
    expected = "--output-dir talk --format srt"
    for output in (
        OutputOptions(output_dir=Path("talk.srt")),
        OutputOptions(("srt",), output_file=Path("talk")),
    ):
        with pytest.raises(OptionError, match=expected):
            Sink(output, [TALK, TALK])


def test_require_folder_output_file_is_refused() -> None:
    with pytest.raises(OptionError, match="--output-dir talk --format srt"):
        OutputOptions(output_dir=Path("talk.srt")).require_folder()
    assert OutputOptions(output_dir=Path("talk")).require_folder() == Path("talk")
