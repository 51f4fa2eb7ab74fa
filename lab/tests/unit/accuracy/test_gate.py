from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lab.tests.unit.data.test_speech import recording
from lab.tests.unit.runs.test_outcomes import make_line
from whisper_hailo.core.errors import ModelError, OptionError
from whisper_hailo_lab.accuracy import __main__ as program
from whisper_hailo_lab.accuracy.gate import (
    BASE,
    BASE_CLIPS,
    CLIPS_OF_A_SET,
    JFK,
    JFK_TEXT,
    SILENT_OF_A_SET,
    SILENT_WITH_TEXT,
    TINY,
    GateResult,
    english_sample,
    judge_jfk,
    judge_languages,
    judge_silence,
    judge_windows,
    language_sample,
    most_errors,
    silent_sample,
)
from whisper_hailo_lab.runs.outcomes import OutcomeTotals

EXACT = OutcomeTotals(substitutions=20, insertions=5, hits=480)


def test_most_errors_adds_share_and_chance() -> None:
    assert most_errors(EXACT) == pytest.approx(
        25 + 0.003 * 500 + 2 * (25 * 0.95) ** 0.5
    )
    assert most_errors(OutcomeTotals()) == 0.0


@pytest.mark.parametrize(
    ("changed", "broken"),
    [
        ({}, []),
        ({"substitutions": 31, "hits": 469}, []),
        ({"substitutions": 32, "hits": 468}, ["errors of the default window"]),
        ({"insertions": 9}, []),
        ({"insertions": 10}, ["words inserted by the default window"]),
        ({"loops": 1}, ["loops"]),
    ],
)
def test_judge_windows_compares_counts(
    changed: dict[str, int], broken: list[str]
) -> None:
    results = judge_windows("x", replace(EXACT, **changed), EXACT)
    assert [r.name for r in results if not r.holds] == [f"x, {name}" for name in broken]


def test_judge_silence_allows_the_peer_s_texts() -> None:
    most = OutcomeTotals(no_speech=11, no_speech_with_text=SILENT_WITH_TEXT)
    assert judge_silence(most).holds
    assert not judge_silence(
        replace(most, no_speech_with_text=SILENT_WITH_TEXT + 1)
    ).holds
    assert not judge_silence(replace(most, loops=1)).holds


def test_judge_languages_allows_the_peer_s_errors() -> None:
    assert judge_languages(OutcomeTotals(recordings=18, language_right=17)).holds
    assert not judge_languages(OutcomeTotals(recordings=18, language_right=14)).holds


def test_judge_jfk_ignores_punctuation_only() -> None:
    good = make_line(JFK_TEXT, JFK_TEXT.upper() + "!")
    assert judge_jfk("x", [good]).holds
    assert not judge_jfk(
        "x", [good, make_line(JFK_TEXT, JFK_TEXT.replace("ask", "asked"))]
    ).holds
    assert not judge_jfk("x", []).holds
    assert JFK.is_file()


def test_samples_have_short_clips_of_every_set() -> None:
    many = [recording(f"vctk/{n}") for n in range(9)] + [
        recording("vctk/long", seconds=20.0)
    ]
    silent = [recording(f"noise/{n}", "none") for n in range(3)]
    others = [
        recording("x/1", "de", 3.0),
        recording("x/2", "de", 5.0),
        recording("x/3", "de", 50.0),
    ]
    everything = [*silent, *many, *others, recording("ami/1")]
    assert [r.key for r in english_sample(everything)] == [
        f"vctk/{n}" for n in range(CLIPS_OF_A_SET)
    ]
    assert [r.key for r in silent_sample(everything)] == [
        f"noise/{n}" for n in range(SILENT_OF_A_SET)
    ]
    assert [r.key for r in language_sample(everything)] == ["x/2", "vctk/0"]
    assert BASE_CLIPS % CLIPS_OF_A_SET == 0


def set_checks(monkeypatch: pytest.MonkeyPatch, tiny: object, base: object) -> None:
    def make_check(outcome: object) -> object:
        def check(recordings: object, out: Path) -> object:
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        return check

    monkeypatch.setattr(program, "check_tiny", make_check(tiny))
    monkeypatch.setattr(program, "check_base", make_check(base))
    monkeypatch.setattr("sys.argv", ["accuracy", "check"])


def test_accuracy_check_broken_bound_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program, "find_recordings", lambda: [])
    good = GateResult("a", "1", True)
    bad = GateResult("b", "2", False)
    set_checks(monkeypatch, [good], [bad])
    assert program.main() == 1
    shown = capsys.readouterr().out
    assert "ok  a: 1\n" in shown
    assert "BROKEN  b: 2\n" in shown
    set_checks(monkeypatch, [good], [good])
    assert program.main() == 0


def test_accuracy_check_reports_missing_parts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing() -> None:
        raise OptionError("no manifest")

    monkeypatch.setattr(program, "find_recordings", missing)
    set_checks(monkeypatch, ModelError("no weights"), [GateResult("b", "2", True)])
    assert program.main() == 0
    shown = capsys.readouterr().out
    assert "no manifest" in shown
    assert f"{TINY}: no weights" in shown
    assert f"{BASE}: no weights" not in shown
