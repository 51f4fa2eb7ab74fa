"""Speech without text: what the program reports, beside what the references lack.

    python -m whisper_hailo_lab.experiments.untranscribed [--models base tiny.en] [--keep]

Transcribes every recording of people and of no speech with the defaults. A report is right where
three or more words in a row are missing from the text, and false where none are; `--keep` puts the
counts into the result that `docs/accuracy.md` shows.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from whisper_hailo import Transcriber
from whisper_hailo.cli.streams import emit
from whisper_hailo.core.types import Transcript
from whisper_hailo_lab.data.speech import (
    SpeechRecording,
    knows_language,
    read_speech,
    speech_folder,
)
from whisper_hailo_lab.documents.untranscribed import RESULT
from whisper_hailo_lab.program import first_line, run_program
from whisper_hailo_lab.runs.machine import this_machine
from whisper_hailo_lab.runs.outcomes import split_units
from whisper_hailo_lab.runs.results import update_result

logger = logging.getLogger(__name__)

LOST_WORDS: Final = 3
"""Fewer words in a row that a text lacks may be small words that nobody misses."""


@dataclass(frozen=True, slots=True)
class LossRow:
    """One recording.

    Attributes:
        n_lost: the longest run of words of the reference that the text lacks.
        has_text: the program wrote something.
        reported_s: seconds of speech without text that it reports.
    """

    key: str
    language: str
    has_speech: bool
    n_lost: int
    has_text: bool
    reported_s: float


def measure_recordings(
    transcriber: Transcriber, recordings: Iterable[SpeechRecording]
) -> list[LossRow]:
    """Transcribe recordings in their own languages' detection, and compare."""
    rows: list[LossRow] = []
    for recording in recordings:
        transcript = transcriber.transcribe(recording.load())
        row = LossRow(
            key=recording.key,
            language=recording.language,
            has_speech=recording.has_speech,
            n_lost=count_lost_words(recording, transcript),
            has_text=bool(transcript.text),
            reported_s=round(
                sum(s.end_s - s.start_s for s in transcript.untranscribed), 2
            ),
        )
        logger.info(
            "%s: %d words lost, %.1f s reported", row.key, row.n_lost, row.reported_s
        )
        rows.append(row)
    return rows


def count_lost_words(recording: SpeechRecording, transcript: Transcript) -> int:
    """Return the longest run of words, or letters without spaces, that a text lacks."""
    import jiwer

    expected = (
        split_units(recording.text, recording.language) if recording.has_speech else []
    )
    if not expected:
        return 0
    units = split_units(transcript.text, recording.language)
    if not units:
        return len(expected)
    aligned = jiwer.process_words(" ".join(expected), " ".join(units))
    deletions = [chunk for chunk in aligned.alignments[0] if chunk.type == "delete"]
    return max(
        (chunk.ref_end_idx - chunk.ref_start_idx for chunk in deletions), default=0
    )


def count_reports(rows: Sequence[LossRow]) -> dict[str, int | float]:
    """Return the counts of a model."""
    speech = [row for row in rows if row.has_speech]
    lost = [row for row in speech if row.n_lost >= LOST_WORDS]
    empty = [row for row in speech if not row.has_text]
    reported = [row for row in speech if row.reported_s]
    return {
        "recordings": len(speech),
        "empty": len(empty),
        "empty_reported": sum(row.reported_s > 0 for row in empty),
        "lost": len(lost),
        "lost_reported": sum(row.reported_s > 0 for row in lost),
        "reports": len(reported),
        "false_reports": sum(row.n_lost == 0 for row in reported),
        "without_speech": len(rows) - len(speech),
        "false_without_speech": sum(
            row.reported_s > 0 for row in rows if not row.has_speech
        ),
        "reported_s": round(sum(row.reported_s for row in speech), 1),
    }


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=first_line(__doc__))
    parser.add_argument(
        "--models", nargs="+", default=["base", "tiny.en"], help="models to run"
    )
    parser.add_argument(
        "--limit", type=int, help="recordings of each model; all by default"
    )
    parser.add_argument("--keep", action="store_true", help=f"write {RESULT.name}")
    options = parser.parse_args()
    recordings = read_speech(speech_folder())
    models: dict[str, dict[str, object]] = {}
    for model in options.models:
        known = [
            recording
            for recording in recordings
            if not recording.has_speech or knows_language(model, recording.language)
        ]
        with Transcriber.from_model(model, threads=1) as transcriber:
            rows = measure_recordings(transcriber, known[: options.limit])
        counts = count_reports(rows)
        emit(f"{model}: {counts}\n")
        notable = [
            asdict(row) for row in rows if row.reported_s or row.n_lost >= LOST_WORDS
        ]
        models[model] = {"counts": counts, "rows": notable}
    if options.keep:
        update_result(RESULT, machine=this_machine().label, models=models)
    return 0


if __name__ == "__main__":
    sys.exit(run_program(main))
