"""Right answers of HEFs, kept so that each is asked for once."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any, Final

from whisper_hailo.backends.hailo.binding import binding_version, load_binding
from whisper_hailo.backends.model_files import content_sha256
from whisper_hailo.core.atomic_files import write_file
from whisper_hailo.core.errors import ModelError, OutputError
from whisper_hailo.core.paths import cache_root
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.strict_json import read_json_object

logger = logging.getLogger(__name__)

ANSWERS_FILE: Final = "hef_answers.json"
"""In the cache: key of a HEF's use to what it answered."""

MOST_ANSWERS: Final = 256
"""The oldest go, so that the file cannot grow for ever."""


def answer_key(path: Path, spec: ModelSpec, graph: str) -> str:
    """Return what an answer depends on: HEF, release of HailoRT, and the model's own graph."""
    graph_sha256 = spec.record(graph).sha256
    release = binding_version(load_binding())
    return f"{content_sha256(path)} {graph_sha256} {release}"


def read_answers() -> dict[str, Any]:
    """Return the kept answers by key, the latest last; a missing or damaged file has none."""
    try:
        return read_json_object(cache_root() / ANSWERS_FILE)
    except ModelError:
        return {}


def keep_answer(key: str, answer: dict[str, Any]) -> None:
    """Keep an answer; where the cache cannot be written, it is asked for again next time."""
    answers = read_answers()  # again: other processes may have written meanwhile
    answers[key] = answer
    latest = dict(list(answers.items())[-MOST_ANSWERS:])
    try:
        write_file(cache_root() / ANSWERS_FILE, json.dumps(latest))
    except OutputError as error:
        logger.debug("the chip's answer was not cached (%s)", error)
