"""Files that the command line names: no two of one name, and none that replaces the input."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from whisper_hailo.cli.caption_options import ShowOptions
from whisper_hailo.core.errors import OptionError
from whisper_hailo.live.events import CaptionWord, Completed
from whisper_hailo.live.outputs.files import CUES, CaptionFile, EventFile
from whisper_hailo.text.subtitles import Layout

SEGMENT = Completed(
    segment_id=0,
    start_s=0.0,
    end_s=1.25,
    words=(CaptionWord(" One", 0.1), CaptionWord(" two")),
    reason="silence",
    heard_s=1.5,
    at_s=0.3,
)


def files(
    audio: str | None,
    events: Path | None,
    outputs: tuple[Path, ...],
    layout: Layout = CUES,
    **how: bool,
) -> list[EventFile | CaptionFile]:
    return ShowOptions(events=events, output=outputs, **how).make_files(audio, layout)[
        0
    ]


def recording(folder: Path) -> Path:
    path = folder / "rec.flac"
    path.write_bytes(b"fLaC" + bytes(100))
    return path


def test_make_files_refuses_the_input(tmp_path: Path) -> None:
    path = recording(tmp_path)
    other = tmp_path / "rec.srt"
    other.hardlink_to(path)
    named = ((path, ()), (None, (other,)), (path, (tmp_path / "talk.srt",)))
    for events, outputs in named:
        with pytest.raises(OptionError, match="rec"):
            files(str(path), events, outputs)
    assert path.stat().st_size == 104
    (tmp_path / "talk.srt").touch()
    assert len(files(str(path), tmp_path / "e.jsonl", (tmp_path / "talk.srt",))) == 2


def test_make_files_refuses_file_of_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = recording(tmp_path)
    with path.open() as opened:
        monkeypatch.setattr("sys.stdin", opened)
        with pytest.raises(OptionError, match="rec"):
            files("-", path, ())


def test_make_files_refuses_one_name_twice(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(OptionError, match=r"--events .*--output .*a\.txt"):
        files(None, tmp_path / "link" / "a.txt", (tmp_path / "a.txt",))
    with pytest.raises(OptionError, match=r"--events .*--output .*a\.srt"):
        files(None, None, (tmp_path / "a.srt", tmp_path / "a.vtt", tmp_path / "a.srt"))


def test_make_files_makes_each_output(tmp_path: Path) -> None:
    names = ("a.srt", "a.vtt", "b.txt")
    made = files(None, None, tuple(tmp_path / name for name in names))
    assert [file.name for file in made] == [str(tmp_path / name) for name in names]


def test_make_files_layout_and_daily_hold_for_all(tmp_path: Path) -> None:
    """A line has no room for two words."""
    names = ["e.jsonl", "a.srt", "a.VTT"]
    events, *outputs = (tmp_path / name for name in names)
    layout = Layout(max_line_width=5, max_line_count=1, cues="segments")
    for file in files(None, events, tuple(outputs), layout, daily=True):
        with file:
            file.put(SEGMENT)
    today = date.today().isoformat()
    assert all((tmp_path / name.replace(".", f".{today}.")).exists() for name in names)
    lines = (tmp_path / f"a.{today}.srt").read_text().splitlines()
    assert [line for line in lines if line.isalpha()] == ["One", "two"]
