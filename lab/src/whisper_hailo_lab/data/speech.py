"""Recordings of human speech in many languages, and of sounds without speech.

They are not part of the repository: their licences differ. `WHISPER_HAILO_SPEECH` names the folder;
without it `../shared/speech` beside the repository is taken. Its `MANIFEST.jsonl` has one line per
recording.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from whisper_hailo.audio import load_audio
from whisper_hailo.core.errors import OptionError, display_path
from whisper_hailo.core.types import FloatArray
from whisper_hailo_lab.repository import ROOT

SPEECH_VARIABLE: Final = "WHISPER_HAILO_SPEECH"
MANIFEST: Final = "MANIFEST.jsonl"
NO_SPEECH: Final = "none"
"""Language of a recording without speech."""

LONG_S: Final = 30.0
"""Longer recordings take several windows of any size."""


@dataclass(frozen=True, slots=True)
class SpeechRecording:
    """One recording and its reference.

    Attributes:
        set: source and language, such as `asterisk_fr`.
        id: unique in its set.
        text: raw reference; empty for recordings without speech.
        language: language code, or `none`.
        seconds: length of the audio.
        kind: how it was recorded.
        paths: files that are joined in this order.
        pauses: samples of digital silence between the files.
    """

    set: str
    id: str
    text: str
    language: str
    seconds: float
    kind: str
    paths: tuple[Path, ...]
    pauses: tuple[int, ...] = field(default=())

    @property
    def key(self) -> str:
        """Set and id, unique among all recordings."""
        return f"{self.set}/{self.id}"

    @property
    def has_speech(self) -> bool:
        """Whether somebody speaks."""
        return self.language != NO_SPEECH

    def load(self) -> FloatArray:
        """Return `(n_samples,)` float32 at 16 kHz mono."""
        pieces = [load_audio(self.paths[0])]
        for pause, path in zip(self.pauses, self.paths[1:], strict=True):
            pieces += [np.zeros(pause, np.float32), load_audio(path)]
        return np.concatenate(pieces)


def speech_folder() -> Path:
    """Return the folder of the recordings, which may be missing."""
    name = os.environ.get(SPEECH_VARIABLE)
    return Path(name) if name else ROOT.parent / "shared" / "speech"


def read_speech(folder: Path) -> list[SpeechRecording]:
    """Read the manifest of a folder.

    Raises:
        OptionError: there is no manifest.
    """
    manifest = folder / MANIFEST
    if not manifest.is_file():
        raise OptionError(
            f"{display_path(manifest)} does not exist; name the folder of the recordings in "
            f"{SPEECH_VARIABLE}"
        )
    lines = map(json.loads, manifest.read_text(encoding="utf-8").splitlines())
    return [
        SpeechRecording(
            set=line["set"],
            id=line["id"],
            text=line["text"],
            language=line["language"],
            seconds=line["seconds"],
            kind=line["kind"],
            paths=(folder / line["file"],),
        )
        for line in lines
    ]


def interleave_sets(recordings: Iterable[SpeechRecording]) -> list[SpeechRecording]:
    """Return the recordings in turns over sets and languages, so that a beginning covers all."""
    counts: Counter[tuple[str, str]] = Counter()
    rounds: dict[int, list[SpeechRecording]] = defaultdict(list)
    for recording in recordings:
        group = (recording.set, recording.language)
        rounds[counts[group]].append(recording)
        counts[group] += 1
    return [recording for number in sorted(rounds) for recording in rounds[number]]


def select_recordings(
    recordings: Sequence[SpeechRecording],
    names: Sequence[str],
    limit: int | None = None,
) -> list[SpeechRecording]:
    """Return the recordings of groups, sets, languages or keys, in their order.

    Args:
        recordings: all recordings.
        names: `all`, `english`, `languages` (other than English), `nospeech`, `long`, a set, a
            language code, or `SET/ID`.
        limit: keep this many of each set and language.

    Raises:
        OptionError: a name that selects nothing.
    """
    keys: set[str] = set()
    for name in names:
        group_keys = {
            recording.key for recording in recordings if _is_in_group(recording, name)
        }
        if not group_keys:
            raise OptionError(
                f"no recording belongs to {name!r}; see `--help` for the groups"
            )
        keys |= group_keys
    counts: Counter[tuple[str, str]] = Counter()
    selected = []
    for recording in recordings:
        if recording.key not in keys:
            continue
        group = (recording.set, recording.language)
        counts[group] += 1
        if limit is None or counts[group] <= limit:
            selected.append(recording)
    return selected


def _is_in_group(recording: SpeechRecording, name: str) -> bool:
    groups = {
        "all": True,
        "english": recording.language == "en",
        "languages": recording.has_speech and recording.language != "en",
        "nospeech": not recording.has_speech,
        "long": recording.has_speech and recording.seconds > LONG_S,
    }
    return groups.get(name, False) or name in {
        recording.set,
        recording.language,
        recording.key,
    }


def knows_language(model: str, language: str) -> bool:
    """Return whether a model can be measured on recordings of a language.

    Args:
        model: name of the model; `.en` models know English only.
        language: language code, or `NO_SPEECH`, which is measured with every model.
    """
    return not model.endswith(".en") or language in {"en", NO_SPEECH}
