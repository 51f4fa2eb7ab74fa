"""Long recordings, made by joining clips of one set and language with pauses."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from whisper_hailo.core.types import SAMPLE_RATE_HZ, UNSPACED_LANGUAGES
from whisper_hailo_lab.data.speech import SpeechRecording

JOINED: Final = "joined"
"""Name of the set that the long recordings form."""

PAUSE_S: Final = (0.3, 1.0)


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """Clips that are joined to one recording.

    Attributes:
        set: set of the clips.
        language: language of the clips.
        most_s: longest recording; clips that would make it longer are left out.
        part: index of its share of the shuffled clips.
        parts: number of shares.
    """

    set: str
    language: str
    most_s: float
    part: int = 0
    parts: int = 1

    @property
    def id(self) -> str:
        """Id of the recording."""
        return f"{self.set}_{self.language}_{self.part}"


JOIN_PLANS: Final = (
    JoinPlan("fleurs", "de", 90),
    JoinPlan("fleurs", "fr", 90),
    JoinPlan("asterisk_fr", "fr", 105),
    JoinPlan("asterisk_es", "es", 140),
    JoinPlan("asterisk_ru", "ru", 160),
    JoinPlan("aishell", "zh", 120),
    JoinPlan("ukrainian", "uk", 180, 0, 2),
    JoinPlan("ukrainian", "uk", 180, 1, 2),
    JoinPlan("arctic_fraser", "en", 170),
    JoinPlan("ljspeech", "en", 150),
    JoinPlan("librispeech", "en", 110),
    JoinPlan("fleurs", "pt", 95),
)


def join_all(recordings: Sequence[SpeechRecording]) -> list[SpeechRecording]:
    """Return the long recordings whose clips exist."""
    joined = [join_clips(recordings, plan) for plan in JOIN_PLANS]
    return [recording for recording in joined if recording.paths]


def join_clips(
    recordings: Sequence[SpeechRecording], plan: JoinPlan
) -> SpeechRecording:
    """Join clips in a seeded order with seeded pauses.

    Args:
        recordings: all recordings; those of the plan's set and language are joined.
        plan: clips and length.
    """
    clips = [
        recording
        for recording in recordings
        if recording.set == plan.set and recording.language == plan.language
    ]
    clips.sort(key=lambda recording: recording.id)
    random.Random(f"{plan.set}-{plan.language}").shuffle(clips)  # noqa: S311 - no secret
    rng = random.Random(f"{plan.set}-{plan.language}-{plan.part}-pauses")  # noqa: S311
    taken: list[SpeechRecording] = []
    pauses: list[int] = []
    n_samples = 0
    for clip in clips[plan.part :: plan.parts]:
        length = round(clip.seconds * SAMPLE_RATE_HZ)
        pause = round(rng.uniform(*PAUSE_S) * SAMPLE_RATE_HZ) if taken else 0
        if n_samples + pause + length > plan.most_s * SAMPLE_RATE_HZ:
            continue
        if taken:
            pauses.append(pause)
        taken.append(clip)
        n_samples += pause + length
    blank = "" if plan.language in UNSPACED_LANGUAGES else " "
    return SpeechRecording(
        set=JOINED,
        id=plan.id,
        text=blank.join(clip.text.strip() for clip in taken),
        language=plan.language,
        seconds=n_samples / SAMPLE_RATE_HZ,
        kind=f"{len(taken)} clips of {plan.set}, joined with pauses of 0.3 to 1.0 s",
        paths=tuple(path for clip in taken for path in clip.paths),
        pauses=tuple(pauses),
    )
