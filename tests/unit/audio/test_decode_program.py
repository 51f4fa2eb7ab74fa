"""How the program of the decoder's process speaks and what it takes, with a stand-in for PyAV."""

from __future__ import annotations

import resource
import signal
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace as Made

import pytest
import soundfile

from tests.unit.audio.decoder import PATIENCE_S, Asked, Decode, Stand, messages, refused, sound


@pytest.mark.parametrize(
    ("missing", "refusal"),
    [
        (["av"], {"why": "libsndfile: Format not recognised", "lacks_ffmpeg": True}),
        (["soundfile"], {"why": "FFmpeg: broken", "lacks_ffmpeg": False}),
        (["av", "soundfile"], {"why": "", "lacks_ffmpeg": True}),
    ],
)
def test_libraries_that_are_missing_have_no_words(
    tmp_path: Path,
    decoded: Decode,
    monkeypatch: pytest.MonkeyPatch,
    missing: list[str],
    refusal: dict[str, object],
) -> None:
    monkeypatch.setitem(sys.modules, "av", Made(open=raising(ValueError("broken"))))
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "a").write_bytes(b"hello " * 100)
    assert refused(decoded(tmp_path / "a")) == refusal


def raising(error: Exception) -> Callable[..., None]:
    def call(*_: object, **__: object) -> None:
        raise error

    return call


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError(" no such plane.\n"), "no such plane"),
        (ValueError(".hidden"), ".hidden"),
        (OSError(5, "Input/output error"), "Input/output error"),
        (soundfile.LibsndfileError(2, "Error opening <object at 0x7f>: "), "System error"),
        (AssertionError(), "AssertionError"),
    ],
)
def test_what_a_library_raises_is_told_as_shortly_as_it_can(
    tmp_path: Path,
    decoded: Decode,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    words: str,
) -> None:
    monkeypatch.setitem(sys.modules, "av", Made(open=raising(error)))
    monkeypatch.setitem(sys.modules, "soundfile", None)
    (tmp_path / "a").write_bytes(bytes(100))
    assert refused(decoded(tmp_path / "a"))["why"] == f"FFmpeg: {words}"


def test_a_length_is_the_tracks_or_that_of_a_file_of_sound_alone(
    tmp_path: Path, decoded: Decode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pictures may last longer than the sound beside them."""
    (tmp_path / "a").write_bytes(bytes(100))
    stand, film = Stand(monkeypatch), [object()]
    for duration, time_base, whole, video, n_frames in (
        (3000, Fraction(1, 1000), 2_000_000, [], 48_000),
        (3000, Fraction(1, 1000), 2_000_000, film, 48_000),
        (3000, None, 2_000_000, [], 32_000),
        (None, Fraction(1, 1000), 2_000_000, [], 32_000),
        (None, None, 2_000_000, film, None),
        (None, None, None, [], None),
        (0, Fraction(1, 1000), None, [], 0),
    ):
        stand.track.duration, stand.track.time_base = duration, time_base
        stand.container.duration, stand.container.streams.video = whole, video
        header, _ = sound(decoded(tmp_path / "a"))
        assert header == [16_000, 1, n_frames]


def test_the_first_track_that_can_be_read_is_taken(
    tmp_path: Path, decoded: Decode, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(bytes(100))
    stand = Stand(monkeypatch)
    unknown, silent = Made(codec_context=None), Made(codec_context=1, rate=0)
    stand.container.streams.audio[:] = [unknown, silent, stand.track]
    assert sound(decoded(tmp_path / "a"))[0][:2] == [16_000, 1]
    for tracks in ([], [unknown], [silent]):
        stand.container.streams.audio[:] = tracks
        assert "FFmpeg: no readable audio track" in refused(decoded(tmp_path / "a"))["why"]


def test_a_crash_costs_few_samples_and_no_message_is_small(
    tmp_path: Path, decoded: Decode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """32 KiB are sent at once: what came in several frames until then, never more than needed."""
    blocks = [bytes([value]) * 16_384 for value in range(5)]
    (tmp_path / "a").write_bytes(bytes(100))
    Stand(monkeypatch, iter(blocks))
    said = decoded(tmp_path / "a")
    assert [len(payload) for _, payload in said[1:-1]] == [32_768, 32_768, 16_384]
    assert b"".join(payload for _, payload in said[1:-1]) == b"".join(blocks)


def test_nothing_follows_the_last_full_message(
    tmp_path: Path, decoded: Decode, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(bytes(100))
    Stand(monkeypatch, iter([bytes(32_768)]))
    assert [kind for kind, _ in decoded(tmp_path / "a")] == [b"H", b"A", b"E"]


def test_what_came_is_sent_before_the_reason_of_the_end(
    tmp_path: Path, decoded: Decode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ending() -> Iterator[bytes]:
        yield b"four"
        raise ValueError("no name for \udcff.")

    (tmp_path / "a").write_bytes(bytes(100))
    Stand(monkeypatch, ending())
    assert decoded(tmp_path / "a")[1:] == [(b"A", b"four"), (b"E", b"no name for ?")]


def test_each_message_is_out_at_once_and_the_patience_begins_anew(
    tmp_path: Path, decoded: Decode, monkeypatch: pytest.MonkeyPatch, asked: Asked
) -> None:
    seen: list[tuple[int, int]] = []

    def watched() -> Iterator[bytes]:
        for _ in range(3):
            content = (tmp_path / "said").read_bytes()
            seen.append((len(list(messages(content))), len(asked.timers)))
            yield bytes(32_768)

    (tmp_path / "a").write_bytes(bytes(100))
    Stand(monkeypatch, watched())
    decoded(tmp_path / "a")
    assert seen == [(1, 2), (2, 3), (3, 4)], "one before the file is opened"
    assert set(asked.timers) == {(signal.ITIMER_PROF, PATIENCE_S)}


def test_a_terminals_ctrl_c_and_a_reader_that_left_are_taken_as_they_are_meant(
    tmp_path: Path, decoded: Decode, asked: Asked
) -> None:
    (tmp_path / "a").write_bytes(bytes(100))
    decoded(tmp_path / "a")
    assert asked.signals == {signal.SIGINT: signal.SIG_IGN, signal.SIGPIPE: signal.SIG_DFL}


@pytest.mark.parametrize(
    ("hard", "most"),
    [(resource.RLIM_INFINITY, 1 << 30), (8 << 30, 1 << 30), (512 << 20, 512 << 20)],
)
def test_it_takes_a_gib_at_most_and_no_more_than_it_may(
    tmp_path: Path, decoded: Decode, asked: Asked, hard: int, most: int
) -> None:
    asked.hard = hard
    (tmp_path / "a").write_bytes(bytes(100))
    decoded(tmp_path / "a")
    assert asked.limits == {resource.RLIMIT_DATA: (most, most), resource.RLIMIT_CORE: (0, 0)}
