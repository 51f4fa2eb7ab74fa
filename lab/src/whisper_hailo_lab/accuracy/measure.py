"""The whole measurement: every part of the plan, beside the transcripts of other systems."""

from __future__ import annotations

import logging
from collections import defaultdict
from itertools import product
from pathlib import Path
from typing import Any

from whisper_hailo.core.errors import WhisperHailoError
from whisper_hailo_lab.accuracy.captions import caption_text
from whisper_hailo_lab.accuracy.emulated import (
    CALIBRATION_SET,
    EXACT,
    PLANS,
    locate_exact_encoder,
    prepare_emulated,
    read_snr_db,
)
from whisper_hailo_lab.accuracy.plan import ENGLISH_MODEL, MULTILINGUAL, make_plan
from whisper_hailo_lab.accuracy.results import Files, make_result
from whisper_hailo_lab.accuracy.transcribe import transcribe_all
from whisper_hailo_lab.data.joined import join_all
from whisper_hailo_lab.data.speech import (
    SpeechRecording,
    interleave_sets,
    read_speech,
    select_recordings,
    speech_folder,
)
from whisper_hailo_lab.runs.transcripts import read_transcripts
from whisper_hailo_tools.options import SCRIPT

logger = logging.getLogger(__name__)


def find_recordings() -> list[SpeechRecording]:
    """Return all recordings, sets interleaved, then the long ones that are joined.

    Raises:
        OptionError: the recordings are not there.
    """
    clips = read_speech(speech_folder())
    return interleave_sets(clips) + join_all(clips)


def measure_all(
    out: Path,
    peers: Path | None,
    names: list[str],
    limit: int | None,
    threads: int,
) -> dict[str, Any]:
    """Measure the parts of the plan and return the kept result.

    Args:
        out: folder of the transcripts; what is there is not made again.
        peers: folder of other systems' transcripts.
        names: parts; empty is all.
        limit: recordings of each set and language; `None`: as the part has it.
        threads: threads per operator.

    Raises:
        WhisperHailoError: recordings or a model cannot be had.
    """
    recordings = find_recordings()
    wanted: dict[str, Files] = defaultdict(dict)
    emulated = _prepare_emulated(out, recordings, names)
    for part in make_plan(emulated):
        if names and part.name not in names:
            continue
        n_clips = limit or part.clips_of_a_set
        chosen = select_recordings(recordings, part.recordings, n_clips)
        if part.name == "emulated":
            chosen = [
                recording for recording in chosen if recording.set != CALIBRATION_SET
            ]
        work = caption_text if part.captions else None
        wanted[part.name] |= transcribe_all(part.setups, chosen, out, threads, work)
        logger.info("%s: %d recordings", part.name, len(chosen))
    others = read_peers(peers) if peers is not None else {}
    result = make_result(dict(wanted), others)
    noise = {}
    for (_, bits), path in emulated.items():
        if bits != EXACT:
            noise[path.name] = read_snr_db(path)
    for row in result["tables"].get("emulated", ()):
        if row["options"]["encoder_backend"] == "emulator":
            row["snr_db"] = round(noise[row["model"]], 1)
    return result


def read_peers(folder: Path) -> Files:
    """Read every file of transcripts in a folder; empty ones are left out."""
    files = {}
    for path in sorted(folder.glob("*.jsonl")):
        lines = read_transcripts(path)
        if lines:
            files[path.stem] = lines
    return files


def _prepare_emulated(
    out: Path, recordings: list[SpeechRecording], names: list[str]
) -> dict[tuple[str, str], Path]:
    """Prepare the models with emulated forms that the parts need, by model and plan."""
    if not names or "emulated" in names:
        plans = PLANS
    elif "study" in names:
        plans = (SCRIPT,)
    else:
        plans = ()
    found = {}
    for model, plan in product((ENGLISH_MODEL, MULTILINGUAL), plans):
        try:
            found[model, plan] = prepare_emulated(
                model, plan, out / "models", recordings
            )
        except WhisperHailoError as error:
            logger.warning("%s is not emulated: %s", model, error)
    exact = {}
    for (model, plan), path in found.items():
        if plan == SCRIPT:
            exact[model, EXACT] = locate_exact_encoder(path)
    return found | exact
