"""Other programs' subtitles of the long recordings of `docs/measurements/subtitles.md`.

    python write_subtitles.py PROGRAM MODEL FOLDER [--threads 1]

FOLDER is that of `python -m whisper_hailo_lab.accuracy subtitles --out FOLDER`, which has written
the recordings to FOLDER/audio; the subtitles go to FOLDER/PROGRAM. Runs in an environment with the
program: `stable-ts` (which needs openai-whisper) with faster-whisper, `whisper-ctranslate2`, or
`openai-whisper`, each with torch 2.13. MODEL is a folder in CTranslate2's format, or OpenAI's `.pt`
file, as `write_openai.py` makes it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

WIDTH = 42
LINES = 2


def read_samples(file: Path) -> Any:  # noqa: ANN401 - NumPy's array
    """Return a file of 16 kHz mono; the programs' own readers need FFmpeg's command."""
    import soundfile

    samples, _ = soundfile.read(file, dtype="float32")
    return samples


def write_stable_ts(chosen: argparse.Namespace, files: Iterable[Path]) -> None:
    """faster-whisper's words, grouped by stable-ts as it does by default."""
    import stable_whisper

    model = stable_whisper.load_faster_whisper(
        chosen.model, device="cpu", compute_type="int8", cpu_threads=chosen.threads
    )
    for file in files:
        result = model.transcribe(read_samples(file))
        path = chosen.out / f"{file.stem}.srt"
        result.to_srt_vtt(str(path), word_level=False)


def write_whisper_ctranslate2(
    chosen: argparse.Namespace, files: Iterable[Path]
) -> None:
    options = {
        "--model_directory": chosen.model,
        "--device": "cpu",
        "--compute_type": "int8",
        "--threads": chosen.threads,
        "--word_timestamps": True,
        "--max_line_width": WIDTH,
        "--max_line_count": LINES,
        "--output_format": "srt",
        "--output_dir": chosen.out,
        "--verbose": False,
    }
    words = [str(word) for option in options.items() for word in option]
    program = Path(sys.executable).with_name("whisper-ctranslate2")
    subprocess.run([program, *words, *files], check=True)


def write_openai_whisper(chosen: argparse.Namespace, files: Iterable[Path]) -> None:
    import torch
    import whisper
    from whisper.utils import get_writer

    torch.set_num_threads(chosen.threads)
    model = whisper.load_model(chosen.model, device="cpu")
    writer = get_writer("srt", str(chosen.out))
    options = {
        "max_line_width": WIDTH,
        "max_line_count": LINES,
        "highlight_words": False,
    }
    for file in files:
        result = model.transcribe(
            read_samples(file),
            fp16=False,
            word_timestamps=True,
        )
        writer(result, str(file), options)


PROGRAMS: dict[str, Callable[[argparse.Namespace, Iterable[Path]], None]] = {
    "stable-ts": write_stable_ts,
    "whisper-ctranslate2": write_whisper_ctranslate2,
    "openai-whisper": write_openai_whisper,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("model")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args()
    chosen.out = chosen.folder / chosen.program
    chosen.out.mkdir(parents=True, exist_ok=True)
    files = sorted((chosen.folder / "audio").glob("*.wav"))
    PROGRAMS[chosen.program](chosen, files)


if __name__ == "__main__":
    main()
