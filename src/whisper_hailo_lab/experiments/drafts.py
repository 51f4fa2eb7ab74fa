"""A model that decodes ahead: the same text, and what it costs.

    python -m whisper_hailo_lab.experiments.drafts --nano DIR [--limit N] [--only texts|times]

Texts: `micro` with and without the smaller model in DIR (`python -m tests.packed nano DIR`), the
frozen clips of all sets, in several forms. Times: decoders of published sizes with random weights,
whose assistant is right as often as is asked for. Keeps the result, from which the tables of
`docs/measurements/drafts.md` follow.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from whisper_hailo import Transcriber
from whisper_hailo.cli.streams import emit
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.decoding.options import SearchOptions
from whisper_hailo.decoding.search.draft_decoder import draft_speed, is_promising
from whisper_hailo.transcription.longform.plan import LongOptions
from whisper_hailo.transcription.run import Segments
from whisper_hailo_lab.data.clips import measured_on, spoken_clips
from whisper_hailo_lab.documents.drafts import RESULT, tables
from whisper_hailo_lab.documents.tables import keep
from whisper_hailo_lab.program import description, run
from whisper_hailo_lab.repository import BUILD
from whisper_hailo_lab.speed.drafts import DecoderPair, measure
from whisper_hailo_lab.speed.keys import use_cache
from whisper_hailo_lab.speed.weights import random_checkpoint

logger = logging.getLogger(__name__)

SETS: Final = ("seen", "unseen", "noisy", "german", "phrases", "long")
FORMS: Final = ("none", "int8", "int4")
N_TOKENS: Final = 4
ACCEPT: Final = (0.6, 0.7, 0.8, 0.9)
PAIRS: Final = (("small", "tiny"), ("base", "tiny"), ("turbo", "distil"))
THREADS: Final = (1, 2)
ROUNDS: Final = 9


def measure_texts(nano: str, form: str, limit: int | None) -> dict[str, Any]:
    """Every clip with drafts of always the same length, and without.

    Args:
        nano: the smaller model.
        form: of the larger one's weights.
        limit: of each set, only so many clips.
    """
    counts: Counter[str] = Counter()
    convert = ConvertOptions(form, "none" if form == "none" else "int8")
    plain = Transcriber.from_model("micro", convert=convert, threads=1)
    ahead = Transcriber.from_model(
        "micro", convert=convert, threads=1, draft_model=nano, draft_tokens=N_TOKENS
    )
    with plain, ahead:
        for name in SETS:
            for clip in spoken_clips(name, limit):
                counts += _compared(plain, ahead, clip.path)
    return {"form": form, "n_tokens": N_TOKENS} | counts


def _compared(plain: Transcriber, ahead: Transcriber, path: Path) -> Counter[str]:
    options = replace(plain.default_options, search=SearchOptions())
    alone = plain.transcribe(path, options, batch_size=1)
    drafted = ahead.run(options, LongOptions(), 1)
    recording = drafted.recording(path)
    segments = Segments(drafted, recording)
    for _ in segments:
        pass
    helped, tally = segments.transcript, recording.context.tally
    if tally is None:
        raise AssertionError(f"{path.name} was decoded without drafts")
    verdict = "same" if alone.text == helped.text else "other"
    return Counter(
        {
            verdict: 1,
            "texts": 1,
            "tokens": tally.n_tokens,
            "passes": tally.n_passes,
            "steps": tally.n_steps,
            "accepted": tally.n_accepted,
        }
    )


def measure_times() -> list[dict[str, Any]]:
    """Every pair, form and number of threads."""
    rows = []
    for model, draft_model in PAIRS:
        large, small = (_checkpoint(size) for size in (model, draft_model))
        for form in FORMS:
            for threads in THREADS:
                told: dict[str, Any] = {"model": model, "draft_model": draft_model}
                told |= {"form": form, "threads": threads}
                logger.info("%s", told)
                pair = DecoderPair(large, small, form, threads)
                if not is_promising(pair.cost):
                    rows.append(told | {"gain": round(draft_speed(pair.cost), 2)})
                    continue
                pair.round(ACCEPT[0], 0)
                rows += [told | measure(pair, accept, ROUNDS) for accept in ACCEPT]
    return rows


def _checkpoint(size: str) -> str:
    return str(random_checkpoint(size, BUILD / "speed" / size))


def main() -> int:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(description=description(__doc__))
    parser.add_argument("--nano", required=True, help="checkpoint of the smaller model")
    parser.add_argument("--limit", type=int, help="of each set, only so many clips")
    parser.add_argument("--only", choices=("texts", "times"), help="keep the other as it was")
    asked = parser.parse_args()
    use_cache(BUILD / "speed-cache")
    has_other = asked.only and RESULT.is_file()
    result = json.loads(RESULT.read_text(encoding="utf-8")) if has_other else {}
    result |= measured_on(asked.limit)
    if asked.only != "times":
        result["texts"] = [measure_texts(asked.nano, form, asked.limit) for form in FORMS]
    if asked.only != "texts":
        result["times"] = measure_times()
    keep(RESULT, result)
    emit("\n".join(tables(result, "").values()))
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
