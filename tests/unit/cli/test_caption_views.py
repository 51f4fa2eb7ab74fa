"""Captions on a terminal and elsewhere, the summary at their end, and warnings."""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from whisper_hailo.cli.caption_views import (
    LatencyWarning,
    TerminalView,
    print_statistics,
    summarise,
    take_last_columns,
)
from whisper_hailo.cli.messages import Verbosity, set_verbosity
from whisper_hailo.live.events import CaptionWord, Completed, Partial, Started
from whisper_hailo.live.statistics import CaptionStatistics

ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def partial(committed: list[str], tentative: list[str]) -> Partial:
    shown = [
        tuple(CaptionWord(text, 0.9) for text in texts)
        for texts in (committed, tentative)
    ]
    return Partial(
        segment_id=0,
        start_s=0.0,
        end_s=1.0,
        committed=shown[0],
        tentative=shown[1],
        heard_s=1.0,
        at_s=1.0,
    )


def completed(*texts: str) -> Completed:
    words = tuple(CaptionWord(text, 0.3) for text in texts)
    return Completed(
        segment_id=0,
        start_s=0.0,
        end_s=1.0,
        words=words,
        reason="silence",
        heard_s=1.0,
        at_s=1.0,
    )


def test_terminal_view_without_terminal_prints_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    view = TerminalView(colour=True, terminal=False)
    for event in (
        Started(segment_id=0, start_s=0, heard_s=0, at_s=0),
        partial([" a"], [" b"]),
        completed(" a", " c"),
        completed(),
    ):
        view.put(event)
    view.close()
    assert capsys.readouterr().out == "a c\n"


@pytest.mark.parametrize(("terminal", "lines"), [(False, 2), (True, 3)])
def test_terminal_view_translation_follows_original(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    terminal: bool,
    lines: int,
) -> None:
    monkeypatch.setenv("COLUMNS", "12")
    view = TerminalView(terminal=terminal)
    view.put(replace(completed(" Guten", " Tag"), translation="Good day to all"))
    out = capsys.readouterr().out
    assert ("\x1b" in out) == terminal
    said, *shown = ESCAPES.sub("", out).replace("\r", "").splitlines()
    assert said == "Guten Tag"
    assert " ".join(line.strip() for line in shown) == "Good day to all"
    assert len(shown) == lines - 1


@pytest.mark.parametrize("colour", [True, False])
def test_terminal_view_rewrites_running_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, colour: bool
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    view = TerminalView(colour=colour, terminal=True)
    view.put(partial([" one", " two"], [" three"]))
    view.put(partial([" one", " two", " three"], [" four", " five"]))
    view.put(completed(" one", " two"))
    out = capsys.readouterr().out
    lines = [ESCAPES.sub("", line).strip() for line in out.split("\r")]
    assert lines == ["", "one two three", "… three four five", "one two"]
    assert ("\x1b[31m" in out) == colour


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.text(max_size=30), max_size=6),
    st.lists(st.text(max_size=30), max_size=6),
    st.integers(5, 60),
    st.booleans(),
)
def test_terminal_view_line_never_exceeds_width(  # noqa: PLR0917
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    committed: list[str],
    tentative: list[str],
    columns: int,
    colour: bool,
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    TerminalView(colour=colour, terminal=True).put(partial(committed, tentative))
    out = ESCAPES.sub("", capsys.readouterr().out).removeprefix("\r")
    assert cell_len(out) < columns
    assert not re.search(r"[\x00-\x1f]", out)


@pytest.mark.parametrize(
    ("texts", "room", "kept"),
    [
        (["你好", "世界"], 5, ["世界"]),
        (["你好", "世界"], 8, ["你好", "世界"]),
        (["你好世界你好世界"], 5, ["世界"]),
    ],
)
def test_take_last_columns_counts_wide_characters(
    texts: list[str], room: int, kept: list[str]
) -> None:
    words = take_last_columns([CaptionWord(text) for text in texts], room)
    assert [word.text for word in words] == kept


def test_terminal_view_final_lines_wrap_at_words(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "12")
    TerminalView(terminal=True).put(
        completed(" one", " two", " three", " fourfourfourfour", " five")
    )
    out = ESCAPES.sub("", capsys.readouterr().out).replace("\r", "")
    assert out == "one two\nthree\nfourfourfourfour\nfive\n"
    TerminalView(terminal=True).put(
        completed(" one", " two", " six", " seven", " nine")
    )
    out = ESCAPES.sub("", capsys.readouterr().out).replace("\r", "")
    assert out == "one two six\nseven nine\n", (
        "all columns but the last, which may wrap"
    )


def test_terminal_view_empty_segment_erases_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    view = TerminalView(terminal=True)
    view.put(partial([" one"], []))
    capsys.readouterr()
    view.put(completed())
    assert capsys.readouterr().out == "\r\x1b[K"
    view.put(partial([" one"], []))
    capsys.readouterr()
    view.close()
    assert capsys.readouterr().out == "\r\x1b[K"


@pytest.mark.parametrize("terminal", [False, True])
def test_terminal_view_final_line_is_escaped(
    capsys: pytest.CaptureFixture[str], terminal: bool
) -> None:
    view = TerminalView(terminal=terminal)
    view.put(completed("", " a\x1b[2J", " b\rc "))
    shown = capsys.readouterr().out.removeprefix("\r\x1b[K")
    assert shown == "a [2J b c\n"


def test_terminal_view_tentative_words_are_dim(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    view = TerminalView(terminal=True)
    for committed, tentative, shown in (
        ([" a", " b"], [" c", " d"], "a b\x1b[2m c d\x1b[0m"),
        ([" a"], [], "a"),
        ([], [" c"], "\x1b[2mc\x1b[0m"),
        (
            [" a"],
            [" b" * 30, " c" * 30, " d" * 9],
            f"…\x1b[2m{' c' * 30}{' d' * 9}\x1b[0m",
        ),
    ):
        view.put(partial(committed, tentative))
        assert capsys.readouterr().out == f"\r\x1b[K{shown}"


def test_terminal_view_colour_is_for_terminals_only(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for terminal in (True, False):
        TerminalView(colour=True, terminal=terminal).put(completed(" one"))
        assert ("\x1b[31mone\x1b[0m" in capsys.readouterr().out) == terminal
    TerminalView(colour=False, terminal=True).put(completed(" one"))
    assert "\x1b[31m" not in capsys.readouterr().out


def test_terminal_view_detects_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for terminal in (True, False):
        monkeypatch.setattr("sys.stdout.isatty", lambda terminal=terminal: terminal)
        TerminalView().put(completed(" one"))
        assert capsys.readouterr().out == "\r\x1b[K" * terminal + "one\n"


def test_summarise_has_words_cost_and_delay() -> None:
    figures = CaptionStatistics(
        n_full=2,
        words_in=Counter(en=10),
        n_stream_samples=160_000,
        n_segment_samples=32_000,
        compute_s=0.5,
    )
    heard, cost, felt = summarise(
        {**figures.as_json(), "memory_mib": 150.4}, Counter({"en": 7, "de": 3})
    )
    assert (
        heard
        == "10 words (English, German) in 2 segments: 2.0 s of speech in 10.0 s of sound"
    )
    assert cost == "computed in 0.5 s, 4.0 times as fast as it was spoken, in 150 MiB"
    assert felt == "no audio was lost"


def test_summarise_live_has_latencies_and_losses() -> None:
    figures = CaptionStatistics(n_lost_samples=16_000, n_away=1, n_away_samples=80_000)
    figures.first_latency_s.append(0.7)
    figures.final_latency_s.append(0.25)
    *_, felt = summarise(figures.as_json(), Counter())
    assert felt == (
        "first text after 0.70 s, final text 0.25 s after the end of speech (medians); "
        "1.0 s were lost; the source was away 5.0 s"
    )


def test_summarise_has_untranscribed_and_stalls() -> None:
    figures = CaptionStatistics(untranscribed_s=4.25, n_stalls=2)
    figures.settle_s.extend([1.0, 2.0, 3.0])
    *_, felt = summarise(figures.as_json(), Counter())
    assert felt == (
        "half of the words were final within 2.0 s, 95 % within 2.9 s; "
        "4.2 s of speech gave no text; 2 times no audio arrived for two seconds or more"
    )


def test_summarise_without_words_has_three_lines() -> None:
    assert len(list(summarise(CaptionStatistics().as_json(), Counter()))) == 3


@pytest.mark.parametrize(("level", "n_lines"), [("", 3), ("verbose", 31), ("quiet", 0)])
def test_print_statistics_lines_follow_verbosity(
    level: str, n_lines: int, capsys: pytest.CaptureFixture[str]
) -> None:
    set_verbosity(Verbosity(verbose=level == "verbose", quiet=level == "quiet"))
    statistics = CaptionStatistics(n_full=2, words_in=Counter(de=10))
    print_statistics(statistics, as_json=False)
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert len(lines) == n_lines
    if level == "verbose":
        figures = dict(line.split() for line in lines)
        assert (figures["words"], figures["full_segments"], figures["rtfx"]) == (
            "10",
            "2",
            "-",
        )
        assert {*figures} == {*statistics.as_json()}
    elif n_lines:
        assert "10 words" in lines[0]


def test_print_statistics_json_ignores_verbosity(
    capsys: pytest.CaptureFixture[str],
) -> None:
    statistics = CaptionStatistics(n_full=2, words_in=Counter(de=10))
    for loudness in (Verbosity(), Verbosity(quiet=True), Verbosity(verbose=True)):
        set_verbosity(loudness)
        print_statistics(statistics, as_json=True)
        captured = capsys.readouterr()
        figures = json.loads(captured.out)
        assert captured.err == ""
        assert (figures["event"], figures["words"]) == ("statistics", 10)
        assert {*figures} == {"event", *statistics.as_json()}


def test_summarise_has_pause_and_omits_missing_latency() -> None:
    figures = CaptionStatistics(n_paused_samples=24_000)
    figures.final_latency_s.append(0.5)
    *_, felt = summarise(figures.as_json(), Counter())
    assert felt == (
        "final text 0.50 s after the end of speech (medians); it was paused 1.5 s"
    )


def test_summarise_orders_languages_by_words() -> None:
    figures = CaptionStatistics(words_in=Counter(de=9)).as_json()
    heard, *_ = summarise(figures, Counter({"en": 2, "de": 7, "fr": 0, "": 3}))
    assert "German, English" in heard


def test_latency_warning_late_captions_warn_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    statistics = CaptionStatistics()
    warning = LatencyWarning(statistics)
    final = Completed(
        segment_id=0,
        start_s=0.0,
        end_s=1.0,
        words=(),
        reason="silence",
        heard_s=1.0,
        at_s=1.0,
    )
    warned = []
    with caplog.at_level(logging.WARNING):
        for behind_s in (0.2, 5.0, 27.2, 9.0, 0.9, 28.0):
            statistics.behind_s = behind_s
            warning.put(Started(segment_id=1, start_s=0, heard_s=0, at_s=0))
            assert len(caplog.records) == sum(warned)
            warning.put(final)
            warned.append(len(caplog.records) > sum(warned))
    assert warned == [False, False, True, False, False, False]
    assert "27 s" in caplog.messages[-1]
