"""The kept result: counts of every setup and group, from which the tables follow."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from whisper_hailo_lab.accuracy.tables import kind_of
from whisper_hailo_lab.rates import difference_interval
from whisper_hailo_lab.runs.outcomes import score_transcript, sum_outcomes
from whisper_hailo_lab.runs.transcripts import (
    SYSTEM,
    TranscriptLine,
    common_transcripts,
)
from whisper_hailo_lab.score import score_texts

FEWEST: Final = 0.9
"""A peer's file that has a smaller share of the recordings is left out, and said so."""

Files = dict[str, list[TranscriptLine]]
Row = dict[str, Any]
"""Counts of one system and group, as the kept result has them."""


def make_result(parts: dict[str, Files], peers: Files) -> dict[str, Any]:
    """Return the kept result.

    Args:
        parts: our transcripts by table and setup.
        peers: transcripts of other systems by the name of their file.
    """
    tables: dict[str, Any] = {}
    for name, files in parts.items():
        if name == "study":
            tables[name] = make_study_rows(files)
        elif name == "peers":
            tables |= make_peer_tables(files, peers)
        else:
            tables[name] = make_rows(files, kind_of)
    return {"tables": tables}


def make_peer_tables(ours: Files, peers: Files) -> dict[str, Any]:
    """Return the tables beside other systems: errors and times by kind, errors by language.

    Every model's rows are over the recordings that all its files have.
    """
    found: dict[str, Any] = {"peers": [], "languages": [], "left_out": []}
    grouped: dict[tuple[str, bool], Files] = defaultdict(dict)
    for name, lines in (ours | peers).items():
        if lines:
            is_given = lines[0].options.get("language") == "given"
            grouped[lines[0].model, is_given][name] = lines
    for (_, is_given), files in sorted(grouped.items(), key=lambda item: item[0]):
        complete = _drop_incomplete(files, found["left_out"])
        if is_given:
            found["languages"] += make_rows(complete, lambda line: line.language)
        else:
            found["peers"] += make_rows(complete, kind_of)
            found["languages"] += make_rows(complete, lambda line: line.language)
    found["time"] = found["peers"]
    return found


def _drop_incomplete(files: Files, left_out: list[str]) -> Files:
    """Drop files of other systems that have too few recordings, and note them."""
    most = max(len(lines) for lines in files.values())
    complete = {}
    for name, lines in files.items():
        if len(lines) >= FEWEST * most:
            complete[name] = lines
        else:
            left_out.append(f"{name}: {len(lines)} of {most} recordings")
    return complete


def make_rows(files: Files, group: Callable[[TranscriptLine], str]) -> list[Row]:
    """Return a row for each file and group, over the recordings that all files have."""
    common = common_transcripts(files.values())
    rows = []
    for name, lines in zip(files, common, strict=True):
        divided: dict[str, list[TranscriptLine]] = defaultdict(list)
        for line in lines:
            divided[group(line)].append(line)
        for kind, chosen in divided.items():
            rows.append({"row": name, "group": kind} | _describe_lines(chosen))
    return rows


def _describe_lines(lines: Sequence[TranscriptLine]) -> dict[str, Any]:
    first = lines[0]
    return {
        "system": first.system,
        "model": first.model,
        "options": first.options,
        "version": first.version,
        "machine": first.machine,
        **sum_outcomes(lines).as_json(),
    }


def keep_peers(rows: Sequence[Row], earlier: Iterable[Row]) -> list[Row]:
    """Add other systems' earlier rows that were not measured again.

    Args:
        rows: of one table, as measured now.
        earlier: of the same table; a row is kept where one of `rows` has the same model and seconds
            of audio in its group.
    """
    measured = {_identify_row(row) for row in rows}
    same_audio = {_audio_of(row) for row in rows}
    others = [
        row
        for row in earlier
        if not is_ours(row)
        and _identify_row(row) not in measured
        and _audio_of(row) in same_audio
    ]
    return [*rows, *others]


def _audio_of(row: Row) -> tuple[str, str, float]:
    """Return model, group and duration: rows of the same recordings have the same."""
    return row["model"], row["group"], row["seconds"]


def _identify_row(row: Row) -> tuple[str, str, str, str]:
    options = json.dumps(row["options"], sort_keys=True)
    return row["system"], row["model"], row["group"], options


def make_study_rows(files: Files) -> list[Row]:
    """Return the study's rows: its own form of rate, and the field's with its interval."""
    common = dict(zip(files, common_transcripts(files.values()), strict=True))
    base: Sequence[TranscriptLine] = []
    rows = []
    for name, lines in common.items():
        base = base or lines
        simple = score_texts(_text_pairs(lines), "simple")
        interval = difference_interval(
            [score_transcript(line).score for line in lines],
            [score_transcript(line).score for line in base],
        )
        rows.append(
            {"row": name}
            | _describe_lines(lines)
            | {
                "simple_wer": round(simple.mean_wer, 5),
                "simple_cer": round(simple.mean_cer, 5),
                "more_than_first": [round(bound, 5) for bound in interval],
            }
        )
    return rows


def _text_pairs(lines: Iterable[TranscriptLine]) -> list[tuple[str, str]]:
    return [(line.reference, line.text) for line in lines]


def is_ours(row: Row) -> bool:
    """Return whether a row is of this project."""
    return bool(row["system"] == SYSTEM)
