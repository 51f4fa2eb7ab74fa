"""Spoken commands: how they are cut and mixed, and the latency of their answers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

import numpy as np
import pytest

pytest.importorskip("wyoming", reason="the server extra is not installed")

from wyoming.asr import Transcript
from wyoming.event import read_event, write_event

from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo_lab.documents.spoken_commands import CommandCase, command_table
from whisper_hailo_lab.experiments.spoken_commands import (
    BEHIND_S,
    cut_at_last_sound,
    mix_scene,
    speak_command,
)


def noise(seconds: float, level: float) -> FloatArray:
    samples = np.random.default_rng(0).normal(0, level, round(seconds * SAMPLE_RATE_HZ))
    return samples.astype(np.float32)


def test_cut_at_last_sound_drops_quiet_end() -> None:
    audio = np.concatenate([noise(1, 0.1), noise(1, 1e-4)])
    assert cut_at_last_sound(audio).size == SAMPLE_RATE_HZ


def test_mix_scene_sets_the_background_level() -> None:
    command = noise(1, 0.1)
    audio = mix_scene(command, noise(1 + BEHIND_S, 0.3), -10.0)
    behind = audio[command.size :]
    assert behind.size == BEHIND_S * SAMPLE_RATE_HZ
    ratio = np.mean(behind**2) / np.mean(command**2)
    assert 10 * np.log10(ratio) == pytest.approx(-10, abs=0.2)


@pytest.fixture(params=[8, None], ids=["the server ends it", "the client ends it"])
def endpointing_server(request: pytest.FixtureRequest) -> Iterator[tuple[str, bool]]:
    """Serve one command, answered at its eighth chunk or at its end; yield address and kind."""
    n_chunks_max = request.param

    def answer_client() -> None:
        connection, _ = listener.accept()
        with connection:
            wire = cast(BinaryIO, connection.makefile("rwb"))
            n_chunks = 0
            while n_chunks != n_chunks_max and (event := read_event(wire)) is not None:
                n_chunks += event.type == "audio-chunk"
                if event.type == "audio-stop":
                    break
            write_event(Transcript("words").event(), wire)
            while n_chunks_max and read_event(wire) is not None:
                pass  # events under way

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=answer_client)
        server.start()
        yield f"tcp://127.0.0.1:{listener.getsockname()[1]}", n_chunks_max is not None
        server.join()


def test_speak_command_times_answer_from_the_last_word(
    endpointing_server: tuple[str, bool],
) -> None:
    address, by_server = endpointing_server
    answer_client = speak_command(
        address, noise(0.5, 0.1), spoken_s=0.1, stop_s=None if by_server else 0.2
    )
    assert answer_client.text == "words"
    assert (answer_client.stop_s is None) is by_server
    assert answer_client.lag_s > (0.1 if by_server else 0.2)


def test_command_table_counts_missing_ends_and_other_texts() -> None:
    def answer_client(text: str, lag_s: float, stop_s: float | None) -> dict[str, Any]:
        return {"text": text, "lag_s": lag_s, "stop_s": stop_s, "cpu_ms": 100.0}

    early = [answer_client("a", 0.7, None), answer_client("b", 4.0, 0.1)]
    late = [answer_client("a", 0.9, None), answer_client("c", 4.2, 0.3)]
    rows = command_table(
        {CommandCase("base", "silence").name: {"early": early, "late": late}}
    ).rows
    assert [row[3:] for row in rows] == [
        ("0.70, 0.70", "-", "1 of 2", "100", "1 of 2"),
        ("0.90, 0.90", "-", "1 of 2", "100", "1 of 2"),
    ]
