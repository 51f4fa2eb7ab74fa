"""Who speaks when: conversations are made, heard by several programs, and scored.

    python -m whisper_hailo_lab.experiments.speakers make DIR
    python -m whisper_hailo_lab.experiments.speakers run DIR [--words MODEL] > ours.jsonl
    python -m whisper_hailo_lab.experiments.speakers score DIR NAME=ANSWERS.jsonl ... [--keep]

`make` writes conversations and recordings of one person, each a WAV file with its turns in NIST's
RTTM. People of the recordings of `data.speech` are split into halves: `dev-` files are for tuning,
`test-` files for figures. Further recordings with an RTTM file of the same name can be put into the
folder; the figures of `real-` files are of pyannote.audio's sample and of the AMI excerpts among
its tests. `run` needs the speaker models (`WHISPER_HAILO_SPEAKERS`). The answers of sherpa-onnx and
senko come from programs in `benchmarks/rivals` with environments of their own. `--keep` replaces
the result that `docs/measurements/speakers.md` has its tables of.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import soundfile

from whisper_hailo import Transcriber
from whisper_hailo.audio import open_audio
from whisper_hailo.cli.streams import emit
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.speakers.diarization import SpeakerDiarizer
from whisper_hailo.speakers.models import find_speaker_models
from whisper_hailo_lab.data.speech import SpeechRecording, read_speech, speech_folder
from whisper_hailo_lab.documents.pages import keep_result
from whisper_hailo_lab.documents.speakers import RESULT, make_tables
from whisper_hailo_lab.program import first_line, run_program
from whisper_hailo_lab.runs.machine import peak_rss_mib, this_machine
from whisper_hailo_lab.speakers.conversations import (
    Conversation,
    ConversationPlan,
    Turn,
    make_conversation,
    read_rttm,
    write_rttm,
)
from whisper_hailo_lab.speakers.score import score_turns, speaker_mapping
from whisper_hailo_lab.speakers.voices import (
    Voice,
    collect_voices,
    split_voices,
    voice_name,
)

COLLAR_S: Final = 0.25

SPEAKERS: Final = range(2, 7)
SECONDS: Final = (45, 75, 120, 180)
"""Of the conversations with each number of speakers, twice."""

_SEED: Final = 1
_ONE_S: Final = 120.0
_SHORTEST_NOISE_S: Final = 4.0
_PAUSE_S: Final = (0.3, 1.0)
_LONGEST_S: Final = 180.0
_SHORTEST_S: Final = 10.0

_DERIVED: Final = {"telephone_gsm_derived": "phone", "noisy_mix_derived": "noisy"}
"""Sets of clips of other sets, with a telephone codec or with recorded noise."""

_SOURCES: Final = (
    (re.compile(r"arctic_"), "fraser"),
    (re.compile(r"LJ\d"), "linda"),
    (re.compile(r"(?:sherpa_)?(?P<id>\d+)-"), "librispeech-{id}"),
)
"""Whose clips they are."""


def make_all(folder: Path) -> None:
    """Write all conversations and recordings of one person."""
    folder.mkdir(parents=True, exist_ok=True)
    recordings = read_speech(speech_folder())
    noises = [
        recording.load()
        for recording in recordings
        if recording.set == "nospeech_noise" and recording.seconds > _SHORTEST_NOISE_S
    ]
    halves = split_voices(collect_voices(recordings), _SEED)
    for half, voices in zip(("dev", "test"), halves, strict=True):
        for conversation in _make_conversations(half, voices, noises):
            _write_conversation(folder, conversation)
        names = {voice.name for voice in voices}
        for kind, name, audio in _join_clips(recordings, names):
            turns = [Turn(0.0, audio.size / SAMPLE_RATE_HZ, name)]
            _write_conversation(
                folder, Conversation(f"{half}-{kind}-{name}", audio, tuple(turns))
            )


def _make_conversations(
    half: str, voices: Sequence[Voice], noises: Sequence[FloatArray]
) -> Iterator[Conversation]:
    for n_speakers in SPEAKERS:
        for index in range(2 * len(SECONDS)):
            seconds = SECONDS[index % len(SECONDS)]
            plan = ConversationPlan(n_speakers, seconds, f"{half}-{n_speakers}-{index}")
            yield make_conversation(voices, noises, plan)
    for voice in voices:
        yield make_conversation(
            [voice], noises, ConversationPlan(1, _ONE_S, f"{half}-1-{voice.name}")
        )


def _join_clips(
    recordings: Sequence[SpeechRecording], names: set[str]
) -> Iterator[tuple[str, str, FloatArray]]:
    """Yield kind, person and audio of joined clips: as recorded, by telephone, in noise."""
    groups: dict[tuple[str, str], list[SpeechRecording]] = defaultdict(list)
    for recording in sorted(recordings, key=lambda item: item.key):
        kind = _DERIVED.get(recording.set, "clean")
        name = voice_name(recording) if kind == "clean" else _source_name(recording.id)
        if name is not None and name in names:
            groups[kind, name].append(recording)
    for (kind, name), clips in groups.items():
        rng = random.Random(f"{kind}-{name}")  # noqa: S311 - no secret
        pieces: list[FloatArray] = []
        seconds = 0.0
        for clip in clips:
            if seconds > _LONGEST_S:
                break
            pieces.append(clip.load())
            seconds += clip.seconds
            pieces.append(
                np.zeros(round(rng.uniform(*_PAUSE_S) * SAMPLE_RATE_HZ), np.float32)
            )
        if seconds >= _SHORTEST_S:
            yield kind, name, np.clip(np.concatenate(pieces), -1, 1)


def _source_name(identifier: str) -> str | None:
    for pattern, name in _SOURCES:
        match = pattern.match(identifier)
        if match:
            return name.format(**match.groupdict())
    return None


def _write_conversation(folder: Path, conversation: Conversation) -> None:
    path = folder / f"{conversation.name}.wav"
    soundfile.write(path, conversation.audio, SAMPLE_RATE_HZ, subtype="PCM_16")
    path.with_suffix(".rttm").write_text(
        write_rttm(conversation.name, conversation.turns)
    )


def run_ours(
    paths: Sequence[Path], words_model: str | None
) -> Iterator[dict[str, Any]]:
    """Yield the answers of our own pipeline, one thread, in this process."""
    with SpeakerDiarizer.from_files(find_speaker_models(), 1) as diarizer:
        for path in paths:
            start_s = time.process_time()
            with open_audio(path) as stream:
                found = diarizer.diarize(stream.blocks(SAMPLE_RATE_HZ))
            processor_s = time.process_time() - start_s
            yield {
                "name": path.stem,
                "turns": [
                    [turn.start_s, turn.end_s, str(turn.speaker)]
                    for turn in found.turns
                ],
                "audio_s": soundfile.info(path).duration,
                "processor_s": processor_s,
                "peak_mib": peak_rss_mib(),
            }
    if words_model is not None:
        with Transcriber.from_model(words_model, threads=1) as transcriber:
            for path in paths:
                transcript = transcriber.transcribe(path, speakers=True)
                words = [
                    word for segment in transcript.segments for word in segment.words
                ]
                yield {
                    "name": path.stem,
                    "words": [
                        [word.start_s, word.end_s, str(word.speaker)] for word in words
                    ],
                }


def score_answers(
    folder: Path, answers: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return a row of figures for each recording, in order of their names."""
    rows: dict[str, dict[str, Any]] = {}
    turns_of: dict[str, list[Turn]] = {}
    for answer in sorted(answers, key=lambda item: (item["name"], "words" in item)):
        name = answer["name"]
        file = folder / f"{name}.rttm"
        if not file.is_file():
            continue
        reference = read_rttm(file.read_text())[name]
        if "words" in answer:
            rows[name] |= count_wrong_words(reference, turns_of[name], answer["words"])
            continue
        turns_of[name] = [Turn(*turn) for turn in answer["turns"]]
        errors = score_turns(reference, turns_of[name])
        forgiving = score_turns(reference, turns_of[name], COLLAR_S)
        rows[name] = {
            "name": name,
            "n_speakers": len({turn.speaker for turn in reference}),
            "n_found": len({turn.speaker for turn in turns_of[name]}),
            "errors": [
                errors.missed_s,
                errors.false_alarm_s,
                errors.confused_s,
                errors.speech_s,
            ],
            "forgiving": [
                forgiving.missed_s,
                forgiving.false_alarm_s,
                forgiving.confused_s,
                forgiving.speech_s,
            ],
            "audio_s": answer["audio_s"],
            "processor_s": answer["processor_s"],
            "peak_mib": answer["peak_mib"],
        }
    return list(rows.values())


def count_wrong_words(
    reference: Sequence[Turn],
    hypothesis: Sequence[Turn],
    words: Sequence[Sequence[Any]],
) -> dict[str, int]:
    """Return how many words lie in turns of the reference, and how many have a wrong speaker.

    A word is right if its speaker is one of those who speak within its times.
    """
    names = speaker_mapping(reference, hypothesis)
    n_words = 0
    n_wrong = 0
    for start_s, end_s, speaker in words:
        speaking = {
            turn.speaker
            for turn in reference
            if turn.start_s < end_s and turn.end_s > start_s
        }
        if speaking:
            n_words += 1
            n_wrong += names.get(speaker) not in speaking
    return {"n_words": n_words, "n_wrong_words": n_wrong}


def _read_answers(text: str) -> tuple[str, list[dict[str, Any]]]:
    """Return the system and the answers of `NAME=FILE`."""
    name, _, file = text.partition("=")
    return name, [json.loads(line) for line in Path(file).read_text().splitlines()]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=first_line(__doc__))
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("make", "run", "score"):
        command = commands.add_parser(name)
        command.add_argument("folder", type=Path)
        if name == "run":
            command.add_argument(
                "--words", metavar="MODEL", help="also transcribe with a model"
            )
            command.add_argument("--only", default="*", help="names, such as test-2-*")
        if name == "score":
            command.add_argument("answers", nargs="+", metavar="NAME=FILE")
            command.add_argument("--keep", action="store_true", help="keep the result")
    arguments = parser.parse_args()
    if arguments.command == "make":
        make_all(arguments.folder)
    elif arguments.command == "run":
        paths = sorted(arguments.folder.glob(f"{arguments.only}.wav"))
        for answer in run_ours(paths, arguments.words):
            emit(json.dumps(answer) + "\n")
    else:
        result = {
            "machine": this_machine().label,
            "systems": {
                name: score_answers(arguments.folder, answers)
                for name, answers in map(_read_answers, arguments.answers)
            },
        }
        for table in make_tables(result).values():
            emit(table)
        if arguments.keep:
            keep_result(RESULT, result)


if __name__ == "__main__":
    sys.exit(run_program(main))
