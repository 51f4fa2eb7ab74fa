"""Captions by another program as a recording is played: PROGRAM FOLDER WEIGHTS AUDIO LANGUAGE.

PROGRAM is `whisper_streaming` (LocalAgreement; WEIGHTS of CTranslate2) or `simulstreaming`
(AlignAtt; OpenAI's WEIGHTS `.pt`), FOLDER its clone. Both have their defaults: a chunk each second
or 1.2 s. The clock is the processor time of one core that has nothing else to do, so that other
programs of the machine do not count. One line of JSON for each text that is committed, and one for
the whole.
"""

from __future__ import annotations

import json
import sys
import time
import types
from typing import Any

import soundfile

RATE_HZ = 16000


class CoreClock:
    """Clock of a core that does nothing but captions: processor time, and waits set forward."""

    def __init__(self) -> None:
        self._begin_s = time.process_time()
        self._ahead_s = 0.0

    def now(self) -> float:
        return self._ahead_s + time.process_time() - self._begin_s

    def wait_until(self, moment_s: float) -> None:
        self._ahead_s += max(0.0, moment_s - self.now())


def open_whisper_streaming(weights: str, language: str) -> tuple[Any, float]:
    """Return its processor of a stream, and the seconds of its chunks."""
    from faster_whisper import WhisperModel
    from whisper_online import FasterWhisperASR, OnlineASRProcessor

    class OnProcessor(FasterWhisperASR):
        """Its recogniser, on a processor: its own line for that is a comment."""

        def load_model(self, modelsize=None, cache_dir=None, model_dir=None):  # noqa: ANN001, ANN202
            del modelsize, cache_dir
            return WhisperModel(
                model_dir, device="cpu", compute_type="int8", cpu_threads=1
            )

    recognizer = OnProcessor(language, model_dir=weights, logfile=sys.stderr)
    return OnlineASRProcessor(recognizer, logfile=sys.stderr), 1.0


def open_simulstreaming(weights: str, language: str) -> tuple[Any, float]:
    """Return its processor of a stream, and the seconds of its chunks."""
    import torch
    from simulstreaming.whisper.simul_whisper import whisper
    from simulstreaming_whisper import SimulWhisperASR, SimulWhisperOnline

    torch.set_num_threads(1)
    # A converted checkpoint has another checksum than OpenAI's file, which it would fetch.
    whisper._download = lambda *_: weights
    chunk_s = 1.2
    recognizer = SimulWhisperASR(
        language=language,
        model_path=weights,
        cif_ckpt_path=None,
        frame_threshold=25,
        audio_max_len=30.0,
        audio_min_len=0.0,
        segment_length=chunk_s,
        beams=1,
        task="transcribe",
        decoder_type="greedy",
        never_fire=False,
        init_prompt=None,
        static_init_prompt=None,
        max_context_tokens=None,
        logdir=None,
    )
    return SimulWhisperOnline(recognizer), chunk_s


OPENERS = {
    "whisper_streaming": open_whisper_streaming,
    "simulstreaming": open_simulstreaming,
}


def text_of(output: Any) -> str:  # noqa: ANN401 - a tuple of one program, a dictionary of the other
    """Return the text that a step committed."""
    if isinstance(output, dict):
        return output.get("text", "")
    return output[2]


def main() -> None:
    program, folder, weights, path, language = sys.argv[1:]
    sys.path.insert(0, folder)
    # Both import it for files alone; these samples are read already.
    sys.modules["librosa"] = types.ModuleType("librosa")
    audio, rate_hz = soundfile.read(path, dtype="float32")
    if rate_hz != RATE_HZ or audio.ndim != 1:
        raise SystemExit(f"{path}: expected {RATE_HZ} Hz mono")
    stream, chunk_s = OPENERS[program](weights, language)
    stream.insert_audio_chunk(audio[:RATE_HZ])
    stream.process_iter()  # warm
    stream.init()
    begin_cpu_s = time.process_time()
    clock = CoreClock()
    start = 0
    while start < audio.size:
        clock.wait_until(start / RATE_HZ + chunk_s)
        end = min(audio.size, round(clock.now() * RATE_HZ))
        stream.insert_audio_chunk(audio[start:end])
        start = end
        text = text_of(stream.process_iter())
        if text:
            print(json.dumps({"at_s": clock.now(), "text": text}), flush=True)
    text = text_of(stream.finish())
    processor_s = time.process_time() - begin_cpu_s
    print(json.dumps({"at_s": clock.now(), "text": text}))
    print(json.dumps({"processor_s": processor_s, "seconds": audio.size / RATE_HZ}))


if __name__ == "__main__":
    main()
