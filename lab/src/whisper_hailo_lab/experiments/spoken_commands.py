"""Spoken commands over Wyoming: how long after the last word the text comes, and what it costs.

    python -m whisper_hailo_lab.experiments.spoken_commands [--limit N] [--case NAME] [--keep]

Short recordings of people (see `data.speech`) end at their last sound and are sent as they are
spoken, with silence, noise or a television behind them. Two servers on one core hear each, one
second apart: one begins with the text in the pause, the other when the command is over. `--keep`
replaces the measured cases in the result that `docs/home-assistant.md` has its table of.
"""

from __future__ import annotations

import argparse
import json
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
from whisper_hailo_lab.documents.spoken_commands import CASES, RESULT, Case, table
from whisper_hailo_lab.documents.tables import keep
from whisper_hailo_lab.experiments.server_clients import PATIENCE_S, cpu_ms, pcm, serving
from whisper_hailo_lab.program import description, run
from whisper_hailo_lab.runs.machine import this_machine

SETS: Final = ("asterisk_en", "arctic_fraser", "vctk", "ljspeech", "cmu_arctic", "librispeech")
"""English, with little noise, so that a level tells where the last word ends."""

SECONDS: Final = (1.5, 5.0)
N_CLIPS: Final = 39
BEHIND_S: Final = 4.0
"""Sent after the last word; what is not answered by then is ended by the client."""

_STOP_S: Final = 0.5
"""From the last word to `audio-stop`, where the client ends the command."""

_APART_S: Final = 1.0
_CHUNK: Final = 512
_LOUD_DB: Final = 30.0
"""Below the loudest; what is quieter is no word."""

_FORM: Final = (SAMPLE_RATE_HZ, 2, 1)
_LATE: Final = """
import runpy
from whisper_hailo.serve.service import TranscriptionService
TranscriptionService.is_idle = lambda self: False
runpy.run_module("whisper_hailo", run_name="__main__")
"""
"""A server that begins with no text before a command is over."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Figures of one command.

    Attributes:
        lag_s: from its last word to its text.
        stop_s: from `audio-stop` to its text; `None` where the server found the end.
        cpu_ms: of the server, for all of it.
    """

    text: str
    lag_s: float
    stop_s: float | None
    cpu_ms: float = 0.0


def command_clips(limit: int) -> list[SpeechRecording]:
    """Return short English recordings, of all sets in turns."""
    chosen = select_recordings(read_speech(speech_folder()), SETS)
    short = [one for one in chosen if SECONDS[0] <= one.seconds <= SECONDS[1]]
    return interleave_sets(short)[:limit]


def cut_at_last_sound(audio: FloatArray) -> FloatArray:
    """Return `(n_samples,)` up to the last 10 ms that are about as loud as speech."""
    step = SAMPLE_RATE_HZ // 100
    frames = audio[: audio.size // step * step].reshape(-1, step)
    level_db = 10 * np.log10(np.mean(frames.astype(np.float64) ** 2, axis=1) + 1e-12)
    last = int(np.flatnonzero(level_db >= level_db.max() - _LOUD_DB)[-1])
    return audio[: (last + 1) * step]


def scene(command: FloatArray, background: FloatArray | None, level_db: float) -> FloatArray:
    """Return a command with `BEHIND_S` behind it, and a background under all of it.

    Args:
        command: `(n_samples,)` at 16 kHz.
        background: at least as long as all of it; `None` is silence.
        level_db: of the background, relative to the command.
    """
    audio = np.concatenate([command, np.zeros(round(BEHIND_S * SAMPLE_RATE_HZ), np.float32)])
    if background is None:
        return audio
    under = background[: audio.size]
    gain = np.sqrt(np.mean(command**2) / np.mean(under**2)) * 10 ** (level_db / 20)
    mixed: FloatArray = np.clip(audio + gain * under, -1, 1).astype(np.float32)
    return mixed


def speak(address: str, audio: FloatArray, spoken_s: float, stop_s: float | None) -> Answer:
    """Send audio as it is spoken until its text comes.

    Args:
        address: of the server.
        audio: `(n_samples,)` at 16 kHz.
        spoken_s: where the last word ends.
        stop_s: after which the client ends the command; `None` leaves it to the server.
    """
    parts, data = urlsplit(address), pcm(audio)
    end_s = audio.size / SAMPLE_RATE_HZ if stop_s is None else spoken_s + stop_s
    came: list[tuple[float, str]] = []
    with socket.create_connection((parts.hostname, parts.port), PATIENCE_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        wire = cast(BinaryIO, connection.makefile("rwb"))

        def listen() -> None:
            while not came and (event := read_event(wire)) is not None:
                if Transcript.is_type(event.type):
                    came.append((time.monotonic(), Transcript.from_event(event).text))

        listener = threading.Thread(target=listen)
        write_event(Transcribe(language="en").event(), wire)
        write_event(AudioStart(*_FORM).event(), wire)
        listener.start()
        start_s, at, stopped_s = time.monotonic(), 0, None
        while not came and at < end_s * SAMPLE_RATE_HZ:
            at += _CHUNK
            time.sleep(max(0.0, start_s + at / SAMPLE_RATE_HZ - time.monotonic()))
            write_event(AudioChunk(*_FORM, audio=data[2 * (at - _CHUNK) : 2 * at]).event(), wire)
        if not came:
            stopped_s = time.monotonic()
            write_event(AudioStop().event(), wire)
        listener.join()
    (came_s, text), *_ = came
    lag_s = round(came_s - start_s - spoken_s, 3)
    return Answer(text, lag_s, None if stopped_s is None else round(came_s - stopped_s, 3))


@contextmanager
def on_one_core() -> Iterator[None]:
    """Give processes that are started in the block the first core alone."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


@contextmanager
def two_servers(model: str) -> Iterator[dict[str, tuple[int, str]]]:
    """Give process and address of a server that begins early, and of one that does not."""
    programs = {"early": ("-m", "whisper_hailo"), "late": ("-c", _LATE)}
    servers = {}
    with ExitStack() as stack, on_one_core():
        for name, program in programs.items():
            process, (address,) = stack.enter_context(
                serving(1, door="tcp", model=model, program=program)
            )
            servers[name] = process, address
        yield servers


def measure(case: Case, clips: Sequence[SpeechRecording]) -> dict[str, list[dict[str, Any]]]:
    """Return what both servers made of all clips, by their names."""
    sounds = [one for one in read_speech(speech_folder()) if one.set == case.background]
    background = np.concatenate([one.load() for one in sounds]) if sounds else None
    longest = round((SECONDS[1] + BEHIND_S) * SAMPLE_RATE_HZ)
    stop_s = _STOP_S if case.stops else None
    found: dict[str, list[dict[str, Any]]] = {"early": [], "late": []}
    with two_servers(case.model) as servers, ThreadPoolExecutor() as pool:

        def ask(name: str, delay_s: float, audio: FloatArray, spoken_s: float) -> Answer:
            process, address = servers[name]
            time.sleep(delay_s)
            before_ms = cpu_ms(process)
            answer = speak(address, audio, spoken_s, stop_s)
            return replace(answer, cpu_ms=cpu_ms(process) - before_ms)

        for number, clip in enumerate(clips):
            command = cut_at_last_sound(clip.load())
            under = None if background is None else np.roll(background, -number * longest)
            audio, spoken_s = scene(command, under, case.level_db), command.size / SAMPLE_RATE_HZ
            order = sorted(servers, reverse=bool(number % 2))
            asked = [
                pool.submit(ask, name, turn * _APART_S, audio, spoken_s)
                for turn, name in enumerate(order)
            ]
            for name, answer in zip(order, asked, strict=True):
                found[name].append({"clip": clip.key} | asdict(answer.result()))
    return found


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(description=description(__doc__))
    parser.add_argument("--limit", type=int, default=N_CLIPS, help="clips of each case")
    parser.add_argument(
        "--case", choices=[case.name for case in CASES], action="append", help="only these"
    )
    parser.add_argument("--keep", action="store_true", help="keep the result")
    arguments = parser.parse_args()
    clips = command_clips(arguments.limit)
    kept = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.is_file() else {}
    for case in CASES:
        if not arguments.case or case.name in arguments.case:
            result = {case.name: measure(case, clips), "machine": this_machine().label}
            emit(table(result).plain())
            if arguments.keep:
                keep(RESULT, kept := kept | result)


if __name__ == "__main__":
    sys.exit(run(main))
