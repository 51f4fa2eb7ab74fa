"""Bounds on accuracy that hold wherever real weights and recordings are.

They come from counts, never from times: the default window against the exact one of 30 s on the
same clips; text for sounds without speech, and languages, against faster-whisper's counts on the
same weights and clips. What cannot be had is left out, and the reason is reported.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from whisper_hailo.checkpoint.hub import ASSETS
from whisper_hailo_lab.accuracy.setups import AccuracySetup
from whisper_hailo_lab.accuracy.transcribe import transcribe_all
from whisper_hailo_lab.data.speech import SpeechRecording, interleave_sets
from whisper_hailo_lab.runs.outcomes import OutcomeTotals, split_units, sum_outcomes
from whisper_hailo_lab.runs.transcripts import TranscriptLine

JFK: Final = ASSETS / "jfk.flac"
JFK_TEXT: Final = (
    "And so my fellow Americans ask not what your country can do for you ask what you can do for "
    "your country"
)
TINY: Final = "tiny.en"
BASE: Final = "base"

READ_SETS: Final = (
    "librispeech",
    "ljspeech",
    "vctk",
    "arctic_fraser",
    "asterisk_en",
    "fleurs",
)
"""English that is read or spoken clearly."""

EXACT_S: Final = 30.0
"""The window that every checkpoint was trained on."""

CLIPS_OF_A_SET: Final = 6
BASE_CLIPS: Final = 18
"""Of the English sample, for the slower model."""

SILENT_OF_A_SET: Final = 2
CLIP_S: Final = 12.0
"""Longest clip: the check takes three minutes on two cores."""

WORSE: Final = 0.003
"""Error rate by which the default may exceed the exact window, besides chance."""

SIGMAS: Final = 2.0
"""Standard deviations of a binomial count that count as chance."""

SILENT_WITH_TEXT: Final = 1
"""Of 11 sounds without speech: faster-whisper's 8-bit tiny.en gives text to as many."""

LANGUAGES_WRONG: Final = 1
"""Of 18 clips; faster-whisper's 8-bit base mistakes none of the 12 that it was given."""


@dataclass(frozen=True, slots=True)
class GateResult:
    """Result of one bound.

    Attributes:
        name: what is bounded.
        found: measured figure in words.
        holds: `False` fails the check; `None` where it was left out.
    """

    name: str
    found: str
    holds: bool | None

    @property
    def text(self) -> str:
        """Return one line of the report."""
        state = {True: "ok", False: "BROKEN", None: "left out"}[self.holds]
        return f"{state:>8}  {self.name}: {self.found}"


def most_errors(exact: OutcomeTotals) -> float:
    """Return how many errors the default may make where the exact window makes these."""
    words = exact.score.reference_count
    errors = exact.score.errors
    rate = min(1.0, errors / max(1, words))
    chance = SIGMAS * math.sqrt(errors * (1 - rate))
    return errors + WORSE * words + chance


def most_insertions(exact: OutcomeTotals) -> float:
    """Return how many words the default may insert where the exact window inserts these."""
    return exact.insertions + SIGMAS * math.sqrt(exact.insertions + 1)


def judge_windows(
    name: str, default: OutcomeTotals, exact: OutcomeTotals
) -> list[GateResult]:
    """Judge the default window against the exact one, on the same clips."""
    words = exact.score.reference_count
    allowed = most_errors(exact)
    inserted = most_insertions(exact)
    return [
        GateResult(
            f"{name}, errors of the default window",
            f"{default.score.errors} of {words} words, at most {allowed:.1f} "
            f"(30 s window: {exact.score.errors})",
            default.score.errors <= allowed,
        ),
        GateResult(
            f"{name}, words inserted by the default window",
            f"{default.insertions}, at most {inserted:.1f} (30 s window: {exact.insertions})",
            default.insertions <= inserted,
        ),
        GateResult(f"{name}, loops", f"{default.loops}, at most 0", default.loops == 0),
    ]


def judge_silence(totals: OutcomeTotals) -> GateResult:
    """Judge text that was written for sounds without speech."""
    found = (
        f"{totals.no_speech_with_text} of {totals.no_speech} given text ({totals.invented} words, "
        f"{totals.loops} loops), at most {SILENT_WITH_TEXT} and no loop"
    )
    holds = totals.no_speech_with_text <= SILENT_WITH_TEXT and not totals.loops
    return GateResult("sounds without speech", found, holds)


def judge_languages(totals: OutcomeTotals) -> GateResult:
    """Judge detected languages."""
    wrong = totals.recordings - totals.language_right
    found = f"{wrong} of {totals.recordings} mistaken, at most {LANGUAGES_WRONG}"
    return GateResult("languages", found, wrong <= LANGUAGES_WRONG)


def judge_jfk(model: str, lines: Sequence[TranscriptLine]) -> GateResult:
    """Judge the recording of the repository, whose every word is known."""
    found = [split_units(line.text, "en") for line in lines]
    text = "; ".join(line.text or line.error for line in lines)
    expected = split_units(JFK_TEXT, "en")
    is_exact = bool(found) and all(units == expected for units in found)
    return GateResult(f"JFK's words, {model}", text, is_exact)


def jfk_recording() -> SpeechRecording:
    """Return the recording of the repository."""
    return SpeechRecording("repository", "jfk", JFK_TEXT, "en", 11.0, "speech", (JFK,))


def english_sample(recordings: Sequence[SpeechRecording]) -> list[SpeechRecording]:
    """Return the fixed sample of clear English."""
    clear = [
        recording
        for recording in recordings
        if recording.set in READ_SETS and recording.language == "en"
    ]
    return _first_of_each_set(clear, CLIPS_OF_A_SET)


def silent_sample(recordings: Sequence[SpeechRecording]) -> list[SpeechRecording]:
    """Return the fixed sample of sounds without speech."""
    silent = [recording for recording in recordings if not recording.has_speech]
    return _first_of_each_set(silent, SILENT_OF_A_SET)


def language_sample(recordings: Sequence[SpeechRecording]) -> list[SpeechRecording]:
    """Return one clip of each language, the longest that the check has time for."""
    found: dict[str, SpeechRecording] = {}
    for recording in recordings:
        known = found.get(recording.language)
        fits = recording.has_speech and recording.seconds <= CLIP_S
        if fits and (known is None or recording.seconds > known.seconds):
            found[recording.language] = recording
    return [found[language] for language in sorted(found)]


def check_tiny(recordings: Sequence[SpeechRecording], out: Path) -> list[GateResult]:
    """Check the small English model: JFK, windows, silence.

    Raises:
        WhisperHailoError: the model cannot be had.
    """
    results = check_windows(TINY, english_sample(recordings), out)
    silent = silent_sample(recordings)
    if silent:
        default = AccuracySetup(TINY)
        totals = _count_outcomes([default], silent, out)
        results.append(judge_silence(totals[default.name]))
    return results


def check_base(recordings: Sequence[SpeechRecording], out: Path) -> list[GateResult]:
    """Check the multilingual model: JFK, windows, languages.

    Raises:
        WhisperHailoError: the model cannot be had.
    """
    results = check_windows(BASE, english_sample(recordings)[:BASE_CLIPS], out)
    spoken = language_sample(recordings)
    if spoken:
        default = AccuracySetup(BASE)
        totals = _count_outcomes([default], spoken, out)
        results.append(judge_languages(totals[default.name]))
    return results


def check_windows(
    model: str, spoken: Sequence[SpeechRecording], out: Path
) -> list[GateResult]:
    """Check JFK's words, and the default window against the exact one in both modes of decoding."""
    modes = [
        (default, replace(default, window_s=EXACT_S))
        for default in (AccuracySetup(model), AccuracySetup(model, timestamps=True))
    ]
    setups = [setup for pair in modes for setup in pair]
    jfk = transcribe_all(setups, [jfk_recording()], out)
    jfk_lines = [line for lines in jfk.values() for line in lines]
    results = [judge_jfk(model, jfk_lines)]
    if spoken:
        totals = _count_outcomes(setups, spoken, out)
        for default, exact in modes:
            name = f"{model}, {'timestamps' if default.timestamps else 'text only'}"
            results += judge_windows(name, totals[default.name], totals[exact.name])
    return results


def _count_outcomes(
    setups: Sequence[AccuracySetup], recordings: Sequence[SpeechRecording], out: Path
) -> dict[str, OutcomeTotals]:
    """Transcribe recordings and count what came of them, by the setup's name."""
    found = transcribe_all(setups, recordings, out)
    return {name: sum_outcomes(lines) for name, lines in found.items()}


def _first_of_each_set(
    recordings: Sequence[SpeechRecording], count: int
) -> list[SpeechRecording]:
    """Return the first short clips of each set."""
    taken: dict[str, int] = {}
    found = []
    for recording in interleave_sets(recordings):
        if recording.seconds <= CLIP_S and taken.get(recording.set, 0) < count:
            taken[recording.set] = taken.get(recording.set, 0) + 1
            found.append(recording)
    return found
