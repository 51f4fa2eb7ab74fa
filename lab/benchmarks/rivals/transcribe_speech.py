"""Other systems' transcripts of the recordings of `docs/accuracy.md`, as JSON lines.

    python transcribe_speech.py SYSTEM MODEL OUT [--beam 5] [--timestamps] [--recordings GROUP ...]

Runs with PYTHONPATH=src:tools/src:lab/src in the environment of the system that `make lab
NAME=rivals` makes: `faster-whisper` or `whisper-cpp`; `openai-whisper` runs in `.venv-parity`,
which has whisper-hailo's packages, too.
MODEL is a folder in CTranslate2's format, OpenAI's `.pt` file, as `write_openai.py` makes it, or a
ggml file. Options that are not named are the system's defaults. Recordings that the file already
has are left out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import TypeAlias

from whisper_hailo.core.types import FloatArray
from whisper_hailo_lab.accuracy.measure import find_recordings
from whisper_hailo_lab.accuracy.plan import CLIPS_OF_A_SET
from whisper_hailo_lab.data.speech import knows_language, select_recordings
from whisper_hailo_lab.runs.machine import this_machine
from whisper_hailo_lab.runs.transcripts import TranscriptLine, read_transcripts

Segments: TypeAlias = list[tuple[float, float, str]]
Transcribe: TypeAlias = Callable[[FloatArray, str | None], tuple[str, Segments]]


def open_faster_whisper(chosen: argparse.Namespace) -> Transcribe:
    import ctranslate2
    import faster_whisper

    model = faster_whisper.WhisperModel(
        chosen.model, device="cpu", compute_type=chosen.compute, cpu_threads=1
    )

    def transcribe(audio: FloatArray, language: str | None) -> tuple[str, Segments]:
        ctranslate2.set_random_seed(1)
        segments, info = model.transcribe(
            audio,
            beam_size=chosen.beam,
            without_timestamps=not chosen.timestamps,
            language=language,
        )
        return info.language, [(s.start, s.end, s.text) for s in segments]

    return transcribe


def open_openai_whisper(chosen: argparse.Namespace) -> Transcribe:
    import torch
    import whisper

    torch.set_num_threads(1)
    model = whisper.load_model(chosen.model, device="cpu")

    def transcribe(audio: FloatArray, language: str | None) -> tuple[str, Segments]:
        torch.manual_seed(1)
        result = model.transcribe(
            audio,
            language=language,
            fp16=False,
            without_timestamps=not chosen.timestamps,
            beam_size=None if chosen.beam == 1 else chosen.beam,
        )
        return result["language"], [
            (s["start"], s["end"], s["text"]) for s in result["segments"]
        ]

    return transcribe


def open_whisper_cpp(chosen: argparse.Namespace) -> Transcribe:
    from pywhispercpp.model import Model

    beam = {"beam_search": {"beam_size": chosen.beam, "patience": -1.0}}
    model = Model(
        chosen.model,
        redirect_whispercpp_logs_to=None,
        n_threads=1,
        params_sampling_strategy=int(chosen.beam > 1),
        no_timestamps=not chosen.timestamps,
        **(beam if chosen.beam > 1 else {}),
    )

    is_english = chosen.model.endswith(".en.ggml")

    def transcribe(audio: FloatArray, language: str | None) -> tuple[str, Segments]:
        # What it detects with a model that knows one language has no meaning.
        found = (
            "en" if is_english else language or model.auto_detect_language(audio)[0][0]
        )
        segments = model.transcribe(audio, language=found)
        return found, [(s.t0 / 100, s.t1 / 100, f" {s.text}") for s in segments]

    return transcribe


SYSTEMS = {
    "faster-whisper": open_faster_whisper,
    "openai-whisper": open_openai_whisper,
    "whisper-cpp": open_whisper_cpp,
}
PACKAGES = {"whisper-cpp": "pywhispercpp"}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("system", choices=SYSTEMS)
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--compute", default="int8", choices=("int8", "float32"))
    parser.add_argument("--timestamps", action="store_true")
    parser.add_argument(
        "--limit", type=int, default=CLIPS_OF_A_SET, help="of each set and language"
    )
    parser.add_argument(
        "--recordings", nargs="+", default=["all"], help="groups, sets or SET/ID"
    )
    parser.add_argument("--language", default="detected", choices=("detected", "given"))
    return parser.parse_args()


def main() -> None:
    chosen = parse()
    computes = {"openai-whisper": "float32", "whisper-cpp": "f16"}
    compute = computes.get(chosen.system, chosen.compute)
    model = Path(chosen.model).name.removesuffix(".pt").removesuffix(".ggml")
    model = model.removeprefix("ct2-").removeprefix("openai-")
    times = "timestamps" if chosen.timestamps else "text"
    name = (
        f"{chosen.system}-{model}-{compute}_beam{chosen.beam}_{chosen.language}_{times}"
    )
    path = chosen.out / f"{name}.jsonl"
    known = {line.key for line in read_transcripts(path)} if path.is_file() else set()
    transcribe = SYSTEMS[chosen.system](chosen)
    chosen.out.mkdir(parents=True, exist_ok=True)
    chosen_recordings = select_recordings(
        find_recordings(), chosen.recordings, chosen.limit
    )
    for recording in chosen_recordings:
        if recording.key in known or not knows_language(model, recording.language):
            continue
        language = recording.language if chosen.language == "given" else None
        audio = recording.load()
        begin_s = time.process_time()
        found, segments = transcribe(audio, None if language == "none" else language)
        line = TranscriptLine(
            set=recording.set,
            id=recording.id,
            language=recording.language,
            seconds=recording.seconds,
            reference=recording.text,
            text="".join(text for _, _, text in segments).strip(),
            language_found=found,
            segments=tuple(segments),
            seconds_cpu=round(time.process_time() - begin_s, 3),
            system=chosen.system,
            model=model,
            options={
                "compute": compute,
                "beam": chosen.beam,
                "language": chosen.language,
                "timestamps": chosen.timestamps,
            },
            version=f"{chosen.system} {version(PACKAGES.get(chosen.system, chosen.system))}",
            machine=this_machine().label,
        )
        with path.open("a", encoding="utf-8") as file:
            file.write(line.as_json() + "\n")


if __name__ == "__main__":
    main()
