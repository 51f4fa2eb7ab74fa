"""What encoding ahead gains: an encoder of fixed latency, as a chip has, and one on the CPU.

    python -m whisper_hailo_lab.experiments.overlap [--rounds 7] [--first N] [--json FILE]

The fixed one gives the features that the CPU computed before, after a sleep: the processor is free
meanwhile, as it is while a chip works. 31.4 ms is the study's tiny encoder on a Hailo-8L. In some
cases the decoder is fixed, too, at the study's 101.1 ms on a Raspberry Pi 5, which shows what
the pipeline itself makes of it, however busy this machine is. "Chip" is our device layer and its
`run_async` on the stand-in for the vendor's binding, whose chip sleeps as long; there, one thread
is enough for both halves.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from whisper_hailo.audio import load_audio
from whisper_hailo.backends.options import EngineOptions
from whisper_hailo.cli.streams import emit
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.core.atomic_files import write_file
from whisper_hailo.core.protocols import Closing, Encoder
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.longform.options import LongOptions
from whisper_hailo.transcription.transcriber import Transcriber
from whisper_hailo_lab.around import EncoderAround
from whisper_hailo_lab.data.clips import recordings
from whisper_hailo_lab.program import description, run
from whisper_hailo_lab.report.table import Table, number, table_of
from whisper_hailo_lab.repository import MICRO, stand_in_chip, stand_in_hefs

SECONDS: Final = 90
ENCODER_MS, DECODER_MS = 31.4, 101.1
"""The study's hybrid of an encoder on the chip and a cached decoder on the CPU."""

CONSECUTIVE: Final = LongOptions(strategy="consecutive")


class PacedDecoder(Closing):
    """An engine of fixed latency that hears nothing."""

    name = "paced"

    def __init__(self, spec: ModelSpec, latency_ms: float) -> None:
        self.spec = spec
        self._latency_ms = latency_ms

    def close(self) -> None:
        pass

    def check(self, options: DecodingOptions) -> None:
        """It honours everything, since it does nothing."""

    def detect_language(self, audio_features: FloatArray) -> dict[str, float]:
        return {"en": 1.0}

    def recognize(
        self, audio_features: FloatArray, prefix: tuple[int, ...], options: DecodingOptions
    ) -> tuple[Decoded, ...]:
        """No text, after the time that it takes."""
        time.sleep(self._latency_ms / 1000)
        return (Decoded((), 0.0, 0.0, runaway=False),) * len(audio_features)


class PacedEncoder(EncoderAround):
    """An encoder whose features are known and whose latency is fixed."""

    def __init__(self, encoder: Encoder, latency_ms: float) -> None:
        super().__init__(encoder)
        self._latency_ms = latency_ms
        self._known: dict[bytes, FloatArray] = {}

    def open(self) -> Self:
        """Open the real one, which nobody else does here."""
        self._encoder.open()
        return self

    def close(self) -> None:
        self._encoder.close()

    def encode(self, mel: FloatArray) -> FloatArray:
        """What the real one gave the first time, after the time that it takes."""
        key = mel.tobytes()
        if key not in self._known:
            self._known[key] = self._encoder.encode(mel)
        time.sleep(self._latency_ms / 1000)
        return self._known[key]


@dataclass(frozen=True, slots=True)
class FixedLatencies:
    """Latencies per window, `None` for what the CPU takes, and threads per operator."""

    encoder_ms: float | None
    decoder_ms: float | None
    threads: int
    chip: bool = False


CASES = (
    FixedLatencies(ENCODER_MS, DECODER_MS, 1, chip=True),
    FixedLatencies(ENCODER_MS, None, 1, chip=True),
    FixedLatencies(ENCODER_MS, DECODER_MS, 1),
    FixedLatencies(ENCODER_MS, None, 1),
    FixedLatencies(None, None, 1),
    FixedLatencies(None, None, 0),
)


@dataclass(frozen=True, slots=True)
class StandInModel:
    """`micro` with an encoder HEF for the stand-in."""

    directory: Path
    engine: EngineOptions

    @classmethod
    def write(cls, folder: Path) -> StandInModel:
        """Write both, and set the chip's pace."""
        chip, directory = stand_in_chip(), folder / "micro"
        convert_checkpoint(MICRO, directory, ConvertOptions("none", hailo=HailoOptions()))
        encoder, _ = stand_in_hefs(directory, folder / "hefs")
        chip.set(latency_ms=ENCODER_MS, remember=True)
        return cls(directory, EngineOptions(encoder=encoder))


def recording() -> FloatArray:
    """A minute and a half of the frozen clips."""
    audio = np.concatenate([load_audio(clip) for clip in recordings("seen")])
    return audio[: SECONDS * SAMPLE_RATE_HZ]


def measure(case: FixedLatencies, model: StandInModel, n_rounds: int) -> dict[str, Any]:
    """Both ways in turn on the same recording."""
    audio = recording()
    made = {ahead: transcriber(case, model, ahead) for ahead in (True, False)}
    times: dict[bool, list[float]] = {True: [], False: []}
    texts: dict[bool, str] = {}
    timings: dict[bool, list[Any]] = {True: [], False: []}
    with made[True], made[False]:
        for ahead in (True, False):
            texts[ahead] = (
                made[ahead].transcribe(audio, DecodingOptions(language="en"), long=CONSECUTIVE).text
            )
        for _ in range(n_rounds):
            for ahead in random.sample([True, False], 2):
                begin = time.perf_counter()
                transcript = made[ahead].transcribe(
                    audio, DecodingOptions(language="en"), long=CONSECUTIVE
                )
                times[ahead].append((time.perf_counter() - begin) * 1000)
                timings[ahead].append(transcript.timings)
    return {
        **asdict(case),
        "in_turn_ms": statistics.median(times[False]),
        "ahead_ms": statistics.median(times[True]),
        "ratio": statistics.median(a / b for a, b in zip(times[False], times[True], strict=True)),
        "mel_and_encoder_ms": statistics.median(t.encode_ms + t.mel_ms for t in timings[False]),
        "decoding_ms": statistics.median(t.cross_kv_ms + t.decode_ms for t in timings[False]),
        "same_text": texts[True] == texts[False],
    }


def transcriber(case: FixedLatencies, model: StandInModel, ahead: bool) -> Transcriber:
    """`micro`, its parts perhaps paced."""
    if case.chip:
        plain = Transcriber.from_model(
            str(model.directory), threads=case.threads, engine=model.engine
        )
    else:
        plain = Transcriber.from_model(
            "micro", convert=ConvertOptions("none"), threads=case.threads
        )
    encoder: Any = plain.encoder
    decoder: Any = plain.decoder
    if case.encoder_ms is not None and not case.chip:
        encoder = PacedEncoder(encoder, case.encoder_ms)
    if case.decoder_ms is not None:
        decoder = PacedDecoder(decoder.spec, case.decoder_ms)
    return replace(plain, encoder=encoder, decoder=decoder, encode_ahead=ahead)


def table(rows: list[dict[str, Any]]) -> Table:
    """A line per pair of latencies."""
    return table_of(
        rows,
        ("encoder", lambda row: f"{_paced(row['encoder_ms'])}{', chip' * row['chip']}"),
        ("decoder", lambda row: _paced(row["decoder_ms"])),
        ("threads", lambda row: str(row["threads"] or "all")),
        ("mel + encoder ms", lambda row: number(row["mel_and_encoder_ms"], 0)),
        ("decoder ms", lambda row: number(row["decoding_ms"], 0)),
        ("in turn ms", lambda row: number(row["in_turn_ms"], 0)),
        ("ahead ms", lambda row: number(row["ahead_ms"], 0)),
        ("gain", lambda row: f"{row['ratio']:.2f}x"),
    )


def _paced(latency_ms: float | None) -> str:
    return "CPU" if latency_ms is None else f"{latency_ms:g} ms a window"


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(description=description(__doc__))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--first", type=int, default=len(CASES), help="only the first so many")
    parser.add_argument("--json", type=Path)
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = StandInModel.write(Path(folder))
        rows = [measure(case, model, words.rounds) for case in CASES[: words.first]]
    if words.json:
        write_file(words.json, json.dumps(rows, indent=2) + "\n")
    emit(table(rows).markdown())


if __name__ == "__main__":
    sys.exit(run(main))
