"""What encoding ahead gains: an encoder of fixed latency, as a chip has, and one on the CPU.

    python benchmarks/overlap.py [--rounds 7] [--first N] [--json FILE]

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
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from whisper_hailo.audio import open_audio
from whisper_hailo.backends.options import EngineOptions
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.core.closing import Closing
from whisper_hailo.core.protocols import Encoder
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FloatArray
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.longform.plan import LongOptions
from whisper_hailo.transcription.transcriber import Transcriber

ROOT = Path(__file__).parents[1]
CLIPS = ROOT / "tests" / "data" / "micro" / "seen"
MICRO = ROOT / "src" / "whisper_hailo" / "assets" / "micro"
SECONDS = 90
ENCODER_MS, DECODER_MS = 31.4, 101.1
"""The study's hybrid of an encoder on the chip and a cached decoder on the CPU."""
CONSECUTIVE = LongOptions(strategy="consecutive")


class PacedDecoder(Closing):
    """An engine of fixed latency that hears nothing."""

    name = "paced"

    def __init__(self, spec: ModelSpec, latency_ms: float) -> None:
        self.spec = spec
        self._latency_ms = latency_ms

    def close(self) -> None:
        pass

    def check(self, options: DecodingOptions) -> None:
        pass

    def detect_language(self, audio_features: FloatArray) -> dict[str, float]:
        return {"en": 1.0}

    def recognize(
        self, audio_features: FloatArray, prefix: tuple[int, ...], options: DecodingOptions
    ) -> tuple[Decoded, ...]:
        time.sleep(self._latency_ms / 1000)
        return (Decoded((), 0.0, 0.0, runaway=False),) * len(audio_features)


class Paced:
    """An encoder whose features are known and whose latency is fixed."""

    def __init__(self, encoder: Encoder, latency_ms: float) -> None:
        self._encoder = encoder
        self._latency_ms = latency_ms
        self._known: dict[bytes, FloatArray] = {}

    def __getattr__(self, name: str) -> object:
        return getattr(self._encoder, name)

    def __enter__(self) -> Paced:
        self._encoder.open()
        return self

    def __exit__(self, *_: object) -> None:
        self._encoder.close()

    def encode(self, mel: FloatArray) -> FloatArray:
        key = mel.tobytes()
        if key not in self._known:
            self._known[key] = self._encoder.encode(mel)
        time.sleep(self._latency_ms / 1000)
        return self._known[key]


@dataclass(frozen=True)
class Case:
    """Latencies per window, `None` for what the CPU takes, and threads per operator."""

    encoder_ms: float | None
    decoder_ms: float | None
    threads: int
    chip: bool = False


CASES = (
    Case(ENCODER_MS, DECODER_MS, 1, chip=True),
    Case(ENCODER_MS, None, 1, chip=True),
    Case(ENCODER_MS, DECODER_MS, 1),
    Case(ENCODER_MS, None, 1),
    Case(None, None, 1),
    Case(None, None, 0),
)


class Chip:
    """`micro` with an encoder HEF for the stand-in."""

    def prepare(self, folder: Path) -> None:
        """Write both, and set the chip's pace."""
        sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "standin")]
        from hailo_platform._machine import MACHINE
        from tests.standin.make_hef import write_hefs

        self.model = folder / "micro"
        convert_checkpoint(MICRO, self.model, ConvertOptions(hailo=HailoOptions()))
        self.engine = EngineOptions(encoder=write_hefs(self.model, folder / "hefs")[0])
        MACHINE.set(latency_ms=ENCODER_MS, remember=True)


CHIP = Chip()


def recording() -> FloatArray:
    """A minute and a half of the frozen clips."""
    blocks: list[FloatArray] = []
    for clip in sorted(CLIPS.glob("*.ogg")):
        with open_audio(clip) as stream:
            blocks += stream.blocks(16_000)
    return np.concatenate(blocks)[: SECONDS * 16_000]


def measure(case: Case, n_rounds: int) -> dict[str, Any]:
    """Both ways in turn on the same recording."""
    audio = recording()
    made = {ahead: transcriber(case, ahead) for ahead in (True, False)}
    times: dict[bool, list[float]] = {True: [], False: []}
    texts: dict[bool, str] = {}
    timings: dict[bool, list[Any]] = {True: [], False: []}
    with made[True], made[False]:
        for ahead in (True, False):
            texts[ahead] = made[ahead].transcribe(audio, long=CONSECUTIVE).text
        for _ in range(n_rounds):
            for ahead in random.sample([True, False], 2):
                begin = time.perf_counter()
                transcript = made[ahead].transcribe(audio, long=CONSECUTIVE)
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


def transcriber(case: Case, ahead: bool) -> Transcriber:
    """`micro`, its parts perhaps paced."""
    if case.chip:
        plain = Transcriber.from_model(str(CHIP.model), threads=case.threads, engine=CHIP.engine)
    else:
        plain = Transcriber.from_model("micro", threads=case.threads)
    encoder = plain.parts["encoder"]
    decoder = plain.parts["decoder"]
    if case.encoder_ms is not None and not case.chip:
        encoder = Paced(encoder, case.encoder_ms)
    if case.decoder_ms is not None:
        decoder = PacedDecoder(decoder.spec, case.decoder_ms)
    return plain.with_parts(encoder=encoder, decoder=decoder, encode_ahead=ahead)


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown."""
    lines = [
        "| encoder | decoder | threads | mel + encoder ms | decoder ms | in turn ms "
        "| ahead ms | gain |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {_paced(row['encoder_ms'])}{', chip' * row['chip']} "
            f"| {_paced(row['decoder_ms'])} | {row['threads'] or 'all'} "
            f"| {row['mel_and_encoder_ms']:.0f} | "
            f"{row['decoding_ms']:.0f} | {row['in_turn_ms']:.0f} | {row['ahead_ms']:.0f} | "
            f"{row['ratio']:.2f}x |"
        )
    return "\n".join(lines)


def _paced(latency_ms: float | None) -> str:
    return "CPU" if latency_ms is None else f"{latency_ms:g} ms a window"


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(description="Gain of encoding ahead.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--first", type=int, default=len(CASES), help="only the first so many")
    parser.add_argument("--json", type=Path)
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        CHIP.prepare(Path(folder))
        rows = [measure(case, words.rounds) for case in CASES[: words.first]]
    if words.json:
        words.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    print(table(rows))


if __name__ == "__main__":
    main()
