"""Live captions, measured on a synthetic conversation.

    python benchmarks/captions.py make OUT.flac [--minutes 5]     several voices, pauses, noise
    python benchmarks/captions.py live AUDIO.flac [--loops N]     in real time: latencies, memory
    python benchmarks/captions.py paired AUDIO.flac [--seconds 60]  drafts against decoding anew
    python benchmarks/captions.py faults AUDIO.flac [--loops N]   stalls, overruns, slow readers

Each prints one JSON object. `make` puts the reference text beside the audio. `live` and `paired`
take `--model`, `--threads` and `--min-silence`.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from whisper_hailo import Transcriber
from whisper_hailo.audio import load_audio
from whisper_hailo.bench.score import evaluate
from whisper_hailo.core.errors import DeviceError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.decoding.option_groups import TokenLimits
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.engine import TranscriberEngine, warm_up
from whisper_hailo.live.events import Completed, Event, violations
from whisper_hailo.live.hub import Hub
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.sources import Block, FileSource
from whisper_hailo.live.stream import CaptionStream
from whisper_hailo.vad import SileroDetector

DATA = Path(__file__).parents[1] / "tests" / "data" / "micro"
SNR_DB = 25.0


def make(arguments: argparse.Namespace) -> dict[str, Any]:
    """A conversation of frozen clips: their voices take turns, pauses from 0.1 to 5 s, noise."""
    rng = np.random.default_rng(arguments.seed)
    clips = sorted(path for name in ("seen", "unseen") for path in (DATA / name).glob("*.ogg"))
    parts: list[FloatArray] = [np.zeros(8000, np.float32)]
    texts: list[str] = []
    n_wanted = round(arguments.minutes * 60 * SAMPLE_RATE_HZ)
    while sum(part.size for part in parts) < n_wanted:
        path = clips[int(rng.integers(len(clips)))]
        parts.append(load_audio(path) * np.float32(rng.uniform(0.5, 1.0)))
        texts.append(path.with_suffix(".txt").read_text(encoding="utf-8").strip())
        pause_s = float(np.exp(rng.uniform(np.log(0.1), np.log(5.0))))
        parts.append(np.zeros(round(pause_s * SAMPLE_RATE_HZ), np.float32))
    audio = np.concatenate(parts)
    level = np.sqrt(np.mean(audio[audio != 0] ** 2)) * 10 ** (-SNR_DB / 20)
    audio = audio + rng.normal(0, level, audio.size).astype(np.float32)
    soundfile.write(arguments.audio, np.clip(audio, -1, 1), SAMPLE_RATE_HZ)
    arguments.audio.with_suffix(".txt").write_text(" ".join(texts) + "\n", encoding="utf-8")
    return {"seconds": audio.size / SAMPLE_RATE_HZ, "sentences": len(texts)}


def decoding(transcriber: Transcriber) -> DecodingOptions:
    """As the command line has it."""
    return DecodingOptions(cures=transcriber.default_cures, limits=TokenLimits(max_per_second=20.0))


def caption_options(arguments: argparse.Namespace, *, drafts: bool = True) -> CaptionOptions:
    """As the command line has it."""
    return CaptionOptions(
        drafts=drafts, min_silence_s=arguments.min_silence, settle_s=arguments.settle
    )


def error_rate(reference: str, text: str) -> float:
    """Word error rate in percent, normalised."""
    return round(100 * evaluate([(reference, text)]).words.rate, 2)


def text_of(events: list[Event]) -> str:
    """All completed segments as one text."""
    return " ".join(e.text for e in events if isinstance(e, Completed) and e.text)


def resident_mib() -> float:
    """Resident memory now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 2**20


def live(arguments: argparse.Namespace) -> dict[str, Any]:
    """Real time, or as fast as it goes; the offline transcription of the same file beside it."""
    reference = arguments.audio.with_suffix(".txt").read_text(encoding="utf-8")
    memory: list[float] = []
    with Transcriber.from_model(arguments.model, threads=arguments.threads) as transcriber:
        offline = transcriber.transcribe(arguments.audio).text if not arguments.no_offline else ""
        engine = TranscriberEngine(transcriber, decoding(transcriber), snug=arguments.snug)
        warm_up(engine)
        captioner = Captioner(engine, SileroDetector(), caption_options(arguments))
        source = FileSource(arguments.audio, real_time=not arguments.fast, loops=arguments.loops)
        begin, cpu = time.perf_counter(), time.process_time()
        events: list[Event] = []
        with source:
            for event in CaptionStream(source, captioner).events():
                events.append(event)
                if isinstance(event, Completed):
                    memory.append(resident_mib())
        wall = time.perf_counter() - begin
    text = text_of(events)
    half = len(memory) // 2
    return {
        "wer_live": error_rate(" ".join([reference] * arguments.loops), text),
        "wer_offline": error_rate(reference, offline) if offline else None,
        "violations": list(violations(events)),
        "cpu_share": round((time.process_time() - cpu) / wall, 3),
        "wall_s": round(wall, 1),
        "memory_first_half_mib": round(float(np.median(memory[:half])), 1),
        "memory_last_mib": round(memory[-1], 1),
        "reasons": {
            r: sum(isinstance(e, Completed) and e.reason == r for e in events)
            for r in ("silence", "length", "end")
        },
        **captioner.statistics.as_json(),
    }


def paired(arguments: argparse.Namespace) -> dict[str, Any]:
    """The same stream with and without drafts in turn, partial by partial, in one process."""
    audio = load_audio(arguments.audio)[: round(arguments.seconds * SAMPLE_RATE_HZ)]
    results: dict[str, Any] = {}
    with Transcriber.from_model(arguments.model, threads=arguments.threads) as transcriber:
        engine = TranscriberEngine(transcriber, decoding(transcriber))
        warm_up(engine)
        runs = {
            drafts: Captioner(engine, SileroDetector(), caption_options(arguments, drafts=drafts))
            for drafts in (True, False)
        }
        events: dict[bool, list[Event]] = {True: [], False: []}
        final_s: dict[bool, list[float]] = {True: [], False: []}
        for at in range(0, audio.size, 3200):
            order = (True, False) if at // 3200 % 2 else (False, True)
            for drafts in order:
                begin = time.perf_counter()
                new = list(runs[drafts].feed(audio[at : at + 3200]))
                if any(isinstance(event, Completed) for event in new):
                    final_s[drafts].append(time.perf_counter() - begin)
                events[drafts] += new
        for drafts, name in ((True, "drafts"), (False, "anew")):
            events[drafts] += runs[drafts].finish()
            figures = runs[drafts].statistics.as_json()
            results[name] = {
                key: figures[key]
                for key in (
                    "partials",
                    "passes_per_partial",
                    "decode_ms_per_partial",
                    "compute_s",
                    "rtfx",
                    "near_ties",
                    "corrections_per_word",
                )
            } | {"final_ms_median": round(1000 * float(np.median(final_s[drafts])), 1)}
    results["same_text"] = text_of(events[True]) == text_of(events[False])
    results["decode_ratio"] = round(
        results["anew"]["decode_ms_per_partial"] / results["drafts"]["decode_ms_per_partial"], 2
    )
    return results


class Faulty(FileSource):
    """A file in real time whose sound card reports overruns."""

    def blocks(self) -> Iterator[Block]:
        """Every thousandth piece comes late, with a fault reported."""
        for index, block in enumerate(super().blocks()):
            if index % 1000 == 999:
                yield Block(block.audio, block.captured_s, "input overflow")
            else:
                yield block


def faults(arguments: argparse.Namespace) -> dict[str, Any]:
    """Device stalls and failures, overruns, readers that come, go and sleep."""
    rng = np.random.default_rng(arguments.seed)
    reference = arguments.audio.with_suffix(".txt").read_text(encoding="utf-8")
    hub = Hub()
    seen: dict[int, str] = {}
    with Transcriber.from_model(arguments.model, threads=arguments.threads) as transcriber:
        engine = TranscriberEngine(transcriber, decoding(transcriber))
        warm_up(engine)
        hear = engine.hear

        def unsteady(*given: Any, **named: Any) -> Any:  # noqa: ANN401 - passed on as it comes
            chance = rng.random()
            if chance < 0.01:
                time.sleep(rng.uniform(0.5, 3.0))
            elif chance < 0.02:
                raise DeviceError("injected: the device failed")
            return hear(*given, **named)

        engine.hear = unsteady  # type: ignore[method-assign]
        captioner = Captioner(engine, SileroDetector(), caption_options(arguments))
        source = Faulty(arguments.audio, real_time=not arguments.fast, loops=arguments.loops)
        events: list[Event] = []
        client = hub.join(lambda: None)
        with source:
            for event in CaptionStream(source, captioner).events():
                events.append(event)
                hub.put(event)
                chance = rng.random()
                if chance < 0.02:  # a page that is closed and opened again
                    hub.leave(client)
                    client = hub.join(lambda: None)
                elif chance < 0.3:  # a reader that looks now and then
                    for message in iter(client.take, None):
                        for entry in [message, *message.get("completed", [])]:
                            if entry["event"] == "completed" and entry["text"]:
                                known = seen.setdefault(entry["segment_id"], entry["text"])
                                if known != entry["text"]:
                                    raise SystemExit(f"segment changed: {entry}")
        for message in iter(client.take, None):
            for entry in [message, *message.get("completed", [])]:
                if entry["event"] == "completed" and entry["text"]:
                    seen.setdefault(entry["segment_id"], entry["text"])
    told = {e.segment_id: e.text for e in events if isinstance(e, Completed) and e.text}
    return {
        "wer": error_rate(" ".join([reference] * arguments.loops), text_of(events)),
        "violations": list(violations(events)),
        "page_saw_everything": seen == told,
        "threads_left": threading.active_count(),
        **captioner.statistics.as_json(),
    }


def main() -> None:
    """Run one of them and print its result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("make", "live", "paired", "faults"))
    parser.add_argument("audio", type=Path)
    parser.add_argument("--model", default="micro")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--loops", type=int, default=1)
    parser.add_argument("--min-silence", type=float, default=0.1)
    parser.add_argument("--settle", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fast", action="store_true", help="not in real time")
    parser.add_argument("--snug", action="store_true")
    parser.add_argument("--no-offline", action="store_true")
    arguments = parser.parse_args()
    functions = {"make": make, "live": live, "paired": paired, "faults": faults}
    print(json.dumps(functions[arguments.what](arguments)))


if __name__ == "__main__":
    main()
