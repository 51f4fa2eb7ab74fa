"""Text as it comes, files that grow, and what an interrupted run leaves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.text.test_outputs import transcript
from whisper_hailo.cli import growing
from whisper_hailo.cli.growing import Growing
from whisper_hailo.cli.inputs import find_inputs
from whisper_hailo.cli.sink import Sink
from whisper_hailo.core.types import Segment, Transcript


class Coming(Iterator[Segment]):
    """Segments of a recording, and the transcript as far as they have come."""

    def __init__(self, whole: Transcript) -> None:
        self._whole = whole
        self._n_given = 0
        self.language_probs = {"de": 0.75, "en": 0.25}

    def __next__(self) -> Segment:
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
    return Sink(formats, place, False, find_inputs([str(folder / "a.wav")]), goes_on=goes_on)


def test_lines_are_printed_when_they_come_and_once(
    tmp_path: Path, segments: Coming, capsys: pytest.CaptureFixture[str]
) -> None:
    results = sink(tmp_path, "txt")
    with Growing(results.inputs[0], results, str, timed=False) as grown:
        grown.take(segments, next(segments))  # type: ignore[arg-type]
        assert capsys.readouterr().out == "Grüße.\n"
        grown.take(segments, next(segments))  # type: ignore[arg-type]
        grown.finish(segments)  # type: ignore[arg-type]
    assert capsys.readouterr().out == "All the rest.\n"


def test_lines_have_their_times_and_their_recording(
    tmp_path: Path, segments: Coming, capsys: pytest.CaptureFixture[str]
) -> None:
    results = sink(tmp_path, "txt")
    two = find_inputs([str(tmp_path / name) for name in ("a.wav", "b.wav")])
    with Growing(two[1], replace(results, inputs=two), str, timed=True) as grown:
        grown.take(segments, next(segments))  # type: ignore[arg-type]
    told = capsys.readouterr()
    assert told.out == f"{tmp_path}/b.wav: [00:00.000 --> 00:09.000]  Grüße.\n"
    assert told.err == f"{tmp_path}/b.wav: German (75%)\n"


def test_what_is_printed_whole_waits_for_its_end(
    tmp_path: Path, segments: Coming, capsys: pytest.CaptureFixture[str]
) -> None:
    results = sink(tmp_path, "srt")
    with Growing(results.inputs[0], results, str, timed=False) as grown:
        for segment in segments:
            grown.take(segments, segment)  # type: ignore[arg-type]
        assert not capsys.readouterr().out
        grown.finish(segments)  # type: ignore[arg-type]
    assert capsys.readouterr().out.count("-->") == 2


def test_files_grow_beside_their_place_and_come_to_it_whole(
    tmp_path: Path, segments: Coming, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(growing, "monotonic", lambda: now[0])
    results = sink(tmp_path, "txt", "srt", "json", out="out")
    with Growing(results.inputs[0], results, str, timed=False) as grown:
        grown.take(segments, next(segments))  # type: ignore[arg-type]
        found = {path.name: path.read_text() for path in (tmp_path / "out").iterdir()}
        assert set(found) == {"a.txt.part", "a.srt.part"}
        assert found["a.txt.part"] == "Grüße.\n"
        grown.take(segments, next(segments))  # type: ignore[arg-type]
        assert (tmp_path / "out" / "a.txt.part").read_text() == "Grüße.\n", "too soon"
        grown.finish(segments)  # type: ignore[arg-type]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"a.txt", "a.srt", "a.json"}
    assert (tmp_path / "out" / "a.txt").read_text() == "Grüße.\nAll the rest.\n"


def test_what_was_not_finished_stays(tmp_path: Path, segments: Coming) -> None:
    results = sink(tmp_path, "txt", out="out")
    with Growing(results.inputs[0], results, str, timed=False) as grown:
        grown.take(segments, next(segments))  # type: ignore[arg-type]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a.txt.part"]
