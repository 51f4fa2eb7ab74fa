"""Spoken commands over Wyoming: time from the last word to the text, and its cost.

    python -m whisper_hailo_lab.experiments.spoken_commands [--limit N] [--case NAME] [--keep]

Short recordings of people (see `data.speech`) are cut at their last sound and sent in real time,
followed by silence, noise or a television. Two servers on one core hear each, one second apart: one
starts to decode in the pause, the other when the command is over. `--keep` replaces the measured
cases in the result that `docs/home-assistant.md` shows.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, BinaryIO, Final, cast
from urllib.parse import urlsplit

import numpy as np
from wyoming.asr import Transcribe, Transcript
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.event import read_event, write_event

from whisper_hailo.cli.streams import emit
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo_lab.data.speech import (
    SpeechRecording,
    interleave_sets,
    read_speech,
    select_recordings,
    speech_folder,
)
from whisper_hailo_lab.documents.pages import keep_result
from whisper_hailo_lab.documents.spoken_commands import (
    CASES,
    RESULT,
    CommandCase,
    command_table,
)
from whisper_hailo_lab.experiments.server_clients import (
    PATIENCE_S,
    encode_pcm,
    processor_ms,
    start_server,
)
from whisper_hailo_lab.program import first_line, run_program
from whisper_hailo_lab.runs.machine import this_machine
from whisper_hailo_lab.runs.results import read_result

SETS: Final = (
    "asterisk_en",
    "arctic_fraser",
    "vctk",
    "ljspeech",
    "cmu_arctic",
    "librispeech",
)
"""English with little noise, so that a level shows where the last word ends."""

SECONDS: Final = (1.5, 5.0)
N_CLIPS: Final = 39
BEHIND_S: Final = 4.0
"""Sent after the last word; the client ends a command that is not answered by then."""

_STOP_S: Final = 0.5
"""Time from the last word to `audio-stop`, where the client ends the command."""

_APART_S: Final = 1.0
_CHUNK: Final = 512
_QUIET_DB: Final = 30.0
"""Level below the loudest sound; quieter sound is no speech."""

_FORMAT: Final = (SAMPLE_RATE_HZ, 2, 1)
_PROGRAMS: Final = {
    "early": ("-m", "whisper_hailo"),
    # This server never starts before a command is over.
    "late": (
        "-c",
        """
import runpy
from whisper_hailo.serve.service import TranscriptionService
TranscriptionService.is_idle = lambda self: False
runpy.run_module("whisper_hailo", run_name="__main__")
""",
    ),
}


@dataclass(frozen=True, slots=True)
class Answer:
    """Figures of one command.

    Attributes:
        text: transcript.
        lag_s: seconds from the last word to the text.
        stop_s: seconds from `audio-stop` to the text; `None` where the server found the end.
        cpu_ms: processor time of the server for all of it.
    """

    text: str
    lag_s: float
    stop_s: float | None
    cpu_ms: float = 0.0


def select_clips(limit: int) -> list[SpeechRecording]:
    """Return short English recordings, interleaved by set."""
    recordings = select_recordings(read_speech(speech_folder()), SETS)
    least_s, most_s = SECONDS
    short = [
        recording for recording in recordings if least_s <= recording.seconds <= most_s
    ]
    return interleave_sets(short)[:limit]


def cut_at_last_sound(audio: FloatArray) -> FloatArray:
    """Return `(n_samples,)` up to the last 10 ms that are about as loud as speech."""
    step = SAMPLE_RATE_HZ // 100
    n_whole = audio.size // step * step
    frames = audio[:n_whole].reshape(-1, step)
    power = np.mean(frames.astype(np.float64) ** 2, axis=1)
    level_db = 10 * np.log10(power + 1e-12)
    is_loud = level_db >= level_db.max() - _QUIET_DB
    last = int(np.flatnonzero(is_loud)[-1])
    return audio[: (last + 1) * step]


def mix_scene(
    command: FloatArray, background: FloatArray | None, level_db: float
) -> FloatArray:
    """Return a command with `BEHIND_S` after it, and a background under all of it.

    Args:
        command: `(n_samples,)` at 16 kHz.
        background: at least as long as all of it; `None` is silence.
        level_db: level of the background, relative to the command.
    """
    silence = np.zeros(round(BEHIND_S * SAMPLE_RATE_HZ), np.float32)
    audio = np.concatenate([command, silence])
    if background is None:
        return audio
    noise = background[: audio.size]
    power_ratio = np.mean(command**2) / np.mean(noise**2)
    gain = np.sqrt(power_ratio) * 10 ** (level_db / 20)
    mixed = np.clip(audio + gain * noise, -1, 1)
    samples: FloatArray = mixed.astype(np.float32)
    return samples


def speak_command(
    address: str,
    audio: FloatArray,
    spoken_s: float,
    stop_s: float | None,
) -> Answer:
    """Send audio in real time until its text comes.

    Args:
        address: address of the server.
        audio: `(n_samples,)` at 16 kHz.
        spoken_s: end of the last word.
        stop_s: time after it at which the client ends the command; `None` leaves it to the server.
    """
    parts = urlsplit(address)
    data = encode_pcm(audio)
    end_s = audio.size / SAMPLE_RATE_HZ if stop_s is None else spoken_s + stop_s
    answers: list[tuple[float, str]] = []
    stopped_s: float | None = None
    with socket.create_connection(
        (parts.hostname, parts.port), PATIENCE_S
    ) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream = cast(BinaryIO, connection.makefile("rwb"))

        def listen() -> None:
            while not answers:
                event = read_event(stream)
                if event is None:
                    return
                if Transcript.is_type(event.type):
                    text = Transcript.from_event(event).text
                    answers.append((time.monotonic(), text))

        listener = threading.Thread(target=listen)
        # Where no `audio-stop` comes, the client leaves the end to the server.
        sensitivity = "default" if stop_s is None else None
        request = Transcribe(language="en", vad_sensitivity=sensitivity)
        write_event(request.event(), stream)
        write_event(AudioStart(*_FORMAT).event(), stream)
        listener.start()
        start_s = time.monotonic()
        sent = 0
        while not answers and sent < end_s * SAMPLE_RATE_HZ:
            # Samples have two bytes.
            chunk = data[2 * sent : 2 * (sent + _CHUNK)]
            sent += _CHUNK
            due_s = start_s + sent / SAMPLE_RATE_HZ
            time.sleep(max(0.0, due_s - time.monotonic()))
            event = AudioChunk(*_FORMAT, audio=chunk).event()
            write_event(event, stream)
        if not answers:
            stopped_s = time.monotonic()
            write_event(AudioStop().event(), stream)
        listener.join()
    answered_s, text = answers[0]
    answer = Answer(text, lag_s=round(answered_s - start_s - spoken_s, 3), stop_s=None)
    if stopped_s is None:
        return answer
    return replace(answer, stop_s=round(answered_s - stopped_s, 3))


@contextmanager
def on_one_core() -> Iterator[None]:
    """Give processes that start in the block the first core alone."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


@contextmanager
def start_servers(model: str) -> Iterator[dict[str, tuple[int, str]]]:
    """Yield process and address of both servers, by the start of their decoding."""
    servers = {}
    with ExitStack() as stack, on_one_core():
        for name, program in _PROGRAMS.items():
            server = start_server(1, scheme="tcp", model=model, program=program)
            process, (address,) = stack.enter_context(server)
            servers[name] = (process, address)
        yield servers


def read_background(case: CommandCase) -> FloatArray | None:
    """Return the background of a case; `None` is silence."""
    sounds = [
        recording
        for recording in read_speech(speech_folder())
        if recording.set == case.background
    ]
    return np.concatenate([sound.load() for sound in sounds]) if sounds else None


Answers = dict[str, list[dict[str, Any]]]
"""Answers to all clips, by the start of decoding."""


def measure_case(case: CommandCase, clips: Sequence[SpeechRecording]) -> Answers:
    """Return both servers' answers to all clips, by the start of their decoding."""
    background = read_background(case)
    longest = round((SECONDS[1] + BEHIND_S) * SAMPLE_RATE_HZ)
    stop_s = _STOP_S if case.stops else None
    results: Answers = {name: [] for name in _PROGRAMS}
    with start_servers(case.model) as servers, ThreadPoolExecutor() as pool:

        def ask(
            name: str,
            delay_s: float,
            audio: FloatArray,
            spoken_s: float,
        ) -> Answer:
            process, address = servers[name]
            time.sleep(delay_s)
            before_ms = processor_ms(process)
            answer = speak_command(address, audio, spoken_s, stop_s)
            return replace(answer, cpu_ms=processor_ms(process) - before_ms)

        for number, clip in enumerate(clips):
            command = cut_at_last_sound(clip.load())
            spoken_s = command.size / SAMPLE_RATE_HZ
            noise = background
            if noise is not None:
                # Each clip has another part of the background.
                noise = np.roll(noise, -number * longest)
            audio = mix_scene(command, noise, case.level_db)
            # In turns, since the second one finds the clip in the caches.
            order = sorted(servers, reverse=number % 2 == 1)
            futures = [
                pool.submit(ask, name, turn * _APART_S, audio, spoken_s)
                for turn, name in enumerate(order)
            ]
            for name, future in zip(order, futures, strict=True):
                answer = future.result()
                results[name].append({"clip": clip.key, **asdict(answer)})
    return results


def main() -> None:
    """Run the command line."""
    names = [case.name for case in CASES]
    parser = argparse.ArgumentParser(description=first_line(__doc__))
    parser.add_argument("--limit", type=int, default=N_CLIPS, help="clips of each case")
    parser.add_argument("--case", choices=names, action="append", help="only these")
    parser.add_argument("--keep", action="store_true", help="keep the result")
    arguments = parser.parse_args()
    clips = select_clips(arguments.limit)
    for case in CASES:
        if case.name not in (arguments.case or names):
            continue
        result = {case.name: measure_case(case, clips), "machine": this_machine().label}
        emit(command_table(result).plain())
        if arguments.keep:
            keep_result(RESULT, read_result(RESULT) | result)


if __name__ == "__main__":
    sys.exit(run_program(main))
