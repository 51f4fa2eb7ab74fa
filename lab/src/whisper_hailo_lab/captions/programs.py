"""Captions of other programs beside ours: LocalAgreement and AlignAtt by those who wrote of them.

`WHISPER_HAILO_CAPTION_PROGRAMS` names a folder with clones of `whisper_streaming` and
`SimulStreaming` (https://github.com/ufal), an environment `venv` with faster-whisper, torch and
soundfile, and the weights of base as `base-ct2` (CTranslate2) and `base.pt` (OpenAI).
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import soundfile

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo_lab.captions.latency import Shown, TimedWord, measure_settling
from whisper_hailo_lab.captions.playback import play_stream, word_error_percent
from whisper_hailo_lab.captions.rules import DEFAULT, caption_engine
from whisper_hailo_lab.captions.streams import (
    SpokenStream,
    choose_unbroken,
    join_recordings,
)
from whisper_hailo_lab.data.speech import read_speech, speech_folder
from whisper_hailo_lab.systems.process import find_script

VARIABLE: Final = "WHISPER_HAILO_CAPTION_PROGRAMS"
MODEL: Final = "base"
LANGUAGE: Final = "en"
MOST_S: Final = 60.0
"""Seconds of speech, of several people: the other programs need more than a core for each."""


@dataclass(frozen=True, slots=True)
class Program:
    """Another program.

    Attributes:
        label: name for the table.
        name: of `lab/benchmarks/rivals/stream_captions.py`.
        clone: folder with its source.
        weights: file or folder.
    """

    label: str
    name: str
    clone: str
    weights: str


PROGRAMS: Final = (
    Program(
        "whisper_streaming (LocalAgreement), 8 bits, 5 beams",
        "whisper_streaming",
        "whisper_streaming",
        "base-ct2",
    ),
    Program("SimulStreaming (AlignAtt)", "simulstreaming", "SimulStreaming", "base.pt"),
)


def compare_programs() -> dict[str, Any]:
    """Caption the same people with ours and with other programs, one core each.

    Raises:
        OptionError: the folder of the other programs is missing.
    """
    folder = find_folder()
    recordings = [
        recording
        for recording in choose_unbroken(read_speech(speech_folder()), LANGUAGE)
        if recording.seconds < MOST_S
    ]
    stream = join_recordings(recordings, MOST_S, seed=LANGUAGE)
    with caption_engine(MODEL, LANGUAGE) as (transcriber, recognizer):
        options = DecodingOptions(language=LANGUAGE, word_timestamps=True)
        segments = transcriber.transcribe(stream.audio, options).segments
        words = [
            TimedWord(word.text, word.end_s)
            for segment in segments
            for word in segment.words
        ]
        run = play_stream(recognizer, stream, DEFAULT.options)
    rewritten = run.captioner.statistics.n_corrected / max(1, len(words))
    rows = [
        row_of(stream, words, run.shown, run.processor_s)
        | {"program": "whisper-hailo", "rewritten": round(rewritten, 3)}
    ]
    for program in PROGRAMS:
        shown, processor_s = run_program(program, folder, stream)
        row = row_of(stream, words, shown, processor_s)
        # Both show what is committed, and nothing else.
        rows.append(row | {"program": program.label, "rewritten": 0.0})
    return {"models": [MODEL], "rows": rows}


def find_folder() -> Path:
    """Return the folder of the other programs.

    Raises:
        OptionError: it is not named, or is not there.
    """
    name = os.environ.get(VARIABLE, "")
    folder = Path(name).resolve()
    if not name or not folder.is_dir():
        raise OptionError(
            f"{VARIABLE} is {name!r}, expected the folder of the other programs; see the head of "
            f"{__name__}"
        )
    return folder


def run_program(
    program: Program, folder: Path, stream: SpokenStream
) -> tuple[list[Shown], float]:
    """Return what a program showed of a stream, and the processor time that it took."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "stream.wav"
        soundfile.write(path, stream.audio, SAMPLE_RATE_HZ)
        command = [
            str(folder / "venv" / "bin" / "python"),
            str(find_script("stream_captions.py")),
            program.name,
            str(folder / program.clone),
            str(folder / program.weights),
            str(path),
            LANGUAGE,
        ]
        # One thread of each library.
        environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        output = subprocess.run(
            command, env=environment, check=True, stdout=subprocess.PIPE, text=True
        ).stdout
    return read_output(output)


def read_output(output: str) -> tuple[list[Shown], float]:
    """Return what the lines of `stream_captions.py` say: texts, and the processor time."""
    settled = ""
    shown = []
    processor_s = 0.0
    for line in output.splitlines():
        if not line.startswith("{"):
            continue  # what its libraries print
        fields = json.loads(line)
        if "text" in fields:
            settled += fields["text"]
            shown.append(Shown(fields["at_s"], settled, ""))
        else:
            processor_s = fields["processor_s"]
    return shown, processor_s


def row_of(
    stream: SpokenStream,
    words: Sequence[TimedWord],
    shown: Sequence[Shown],
    processor_s: float,
) -> dict[str, Any]:
    """Return the figures of one program."""
    settle_s = measure_settling(words, shown)
    return {
        "seconds": round(stream.seconds, 1),
        "settle_s_median": round(float(np.median(settle_s)), 2),
        "settle_s_p95": round(float(np.percentile(settle_s, 95)), 2),
        "share": round(processor_s / stream.seconds, 3),
        "wer": word_error_percent(stream.text, shown[-1].settled, LANGUAGE),
    }
