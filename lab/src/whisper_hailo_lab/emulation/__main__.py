"""What the chip's 8 and 16 bits cost the bundled model: signal-to-noise ratio and word errors.

    python -m whisper_hailo_lab.emulation [--parts encoder decoder] [--draw]

Measures every plan on the frozen clips of `tests/data/micro`, keeps the result, writes the picture
and the tables of `docs/reference/emulation.md`; `--draw` makes the last two from the result alone.
Scales are chosen by one third of the clips of known voices. Noise is measured on others, words on
noisy ones, where rounding has most to spoil. Finished steps are kept in `build/emulation.json`: an
interrupted run goes on.
"""

from __future__ import annotations

import argparse
import json
import logging
import platform
import shutil
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from whisper_hailo import Transcriber
from whisper_hailo.backends.options import EngineOptions
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.core.atomic_files import write_file
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo_lab.data.clips import recordings, said
from whisper_hailo_lab.documents.emulation import RESULT, contradictions
from whisper_hailo_lab.documents.tables import write
from whisper_hailo_lab.emulation.part import N_WINDOWS, Part, draw
from whisper_hailo_lab.program import description, run
from whisper_hailo_lab.rates import difference_interval
from whisper_hailo_lab.repository import BUILD, MICRO, PACKAGE
from whisper_hailo_lab.runs.machine import mark_of
from whisper_hailo_lab.runs.run_file import StepJournal, key_of
from whisper_hailo_lab.score import evaluate

logger = logging.getLogger(__name__)

JOURNAL: Final = BUILD / "emulation.json"
SPOKEN: Final = ("seen", "noisy", "unseen")
PLANS: Final = ("all8", "adds16", "norms16", "script")
EXACT: Final = "float32"
KINDS: Final = {
    "residual adds": "ew_add",
    "layer norms": "layer_normalization",
    "linear products": "conv",
    "attention's products": "matmul",
    "softmax": "softmax",
}
"""Kinds of layers that are set to 8 bits alone, all else having 16."""

N_CLIPS: Final = 48
"""Noisy clips that words are counted on, the same for every plan and part."""


class EmulationBench:
    """The model, its parts, the clips and what is known of them already."""

    def __init__(self, root: Path) -> None:
        self.directory = root / "micro"
        convert_checkpoint(MICRO, self.directory, ConvertOptions("none", hailo=HailoOptions()))
        self.spec = ModelSpec.load(self.directory)
        self.clips = split_clips(root)
        parts = ("encoder", "decoder")
        self.parts = {part: Part(self.directory, self.spec, part, root) for part in parts}
        programs = [*PACKAGE.rglob("*.py"), *Path(__file__).parent.glob("*.py")]
        key = key_of([*programs, *self.clips], self.spec.source.sha256, N_WINDOWS)
        self._journal = StepJournal(JOURNAL, key)

    def measure(self, part: Part) -> dict[str, Any]:
        """Plans with word errors, and kinds of layers without."""
        rows = [self.row(part, plan) for plan in (EXACT, *PLANS)]
        return {
            "weights": mark_of(MICRO),
            "plans": rows,
            "kinds": self.kinds(part),
        }

    def row(self, part: Part, plan: str) -> dict[str, Any]:
        """One row of the table of plans."""
        if plan == EXACT:
            return {"plan": plan, **self.words(part.name, plan)}
        noise = self._journal.step(
            f"{part.name}, {plan}, noise", lambda: part.noise(plan, part.script(plan), adds=True)
        )
        return {"plan": plan, **noise, **self.words(part.name, plan)}

    def kinds(self, part: Part) -> dict[str, float]:
        """Noise of one kind of layers at 8 bits when all others have 16, and of all at 16."""
        wide = "quantization_param({*}, precision_mode=a16_w16)\n"
        found = {"none": self.snr_db(part, "all16", wide)}
        for name, kind in KINDS.items():
            narrow = f"quantization_param({{{kind}*}}, precision_mode=a8_w8)\n"
            found[name] = self.snr_db(part, kind, wide + narrow)
        return found

    def snr_db(self, part: Part, name: str, script: str) -> float:
        """Noise of the part's result."""
        step = f"{part.name}, {name}, noise of the result"
        noise = self._journal.step(step, lambda: part.noise(name, script))
        found: float = noise["snr_db"]
        return found

    def words(self, what: str, plan: str) -> dict[str, Any]:
        """Word errors with a part, or `both`, as a plan says, beside those in float32."""
        counted = evaluate(self.texts(what, plan))
        exact = evaluate(self.texts("decoder" if what == "both" else what, EXACT))
        words, scores = counted.words, [file.words for file in counted.files]
        return {
            "wer": words.rate,
            "interval": list(counted.wer_interval()),
            "more": words.rate - exact.words.rate,
            "more_interval": list(difference_interval(scores, [f.words for f in exact.files])),
            "clips": len(scores),
            "words": words.reference_count,
            "substitutions": words.substitutions,
            "deletions": words.deletions,
            "insertions": words.insertions,
        }

    def texts(self, what: str, plan: str) -> list[tuple[str, str]]:
        """References with what is heard."""
        found = self._journal.step(f"{what}, {plan}, words", lambda: self._transcribe(what, plan))
        return [(reference, heard) for reference, heard in found]

    def _transcribe(self, what: str, plan: str) -> list[list[str]]:
        options: dict[str, Any] = {}
        for part in self.parts.values() if what == "both" else (self.parts[what],):
            options[f"{part.name}_backend"] = "emulator"
            if plan != EXACT:
                part.write(plan)
        if plan == EXACT and what == "encoder":
            form = self.directory / self.parts["encoder"].form.file
            options = {"encoder": form, "encoder_backend": "onnx"}
        elif plan == EXACT:
            options = {"decoder_backend": "fixed"}
        engine = EngineOptions(**options)
        english = DecodingOptions(language="en")
        with Transcriber.from_model(str(self.directory), engine=engine, threads=1) as transcriber:
            return [[said(path), transcriber.transcribe(path, english).text] for path in self.clips]


def split_clips(root: Path) -> list[Path]:
    """Every third clip of the known voices sets the scales; words are counted on noisy others."""
    noisy = []
    for name in SPOKEN:
        for i, path in enumerate(recordings(name)):
            for_scales = name != "unseen" and i % 3 == 0
            folder = root / ("scales" if for_scales else "measured")
            folder.mkdir(exist_ok=True)
            shutil.copy(path, folder / path.name)
            if name == "noisy" and not for_scales:
                noisy.append(path)
    return noisy[:N_CLIPS]


def measure(parts: list[str], result: dict[str, Any]) -> dict[str, Any]:
    """Everything, one part after the other."""
    with tempfile.TemporaryDirectory(prefix="emulation-") as folder:
        bench = EmulationBench(Path(folder))
        for part in parts:
            result[part] = bench.measure(bench.parts[part])
        if "decoder" in parts:
            result["both"] = {"plan": "script", **bench.words("both", "script")}
    result["machine"] = f"{platform.machine()}, ONNX Runtime {version('onnxruntime')}"
    result["windows"] = N_WINDOWS
    return result


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(description=description(__doc__))
    parser.add_argument("--parts", nargs="+", default=["encoder", "decoder"])
    parser.add_argument("--draw", action="store_true", help="only from the result file")
    chosen = parser.parse_args()
    result = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.is_file() else {}
    if not chosen.draw:
        result = measure(chosen.parts, result)
        write_file(RESULT, json.dumps(result, indent=2, sort_keys=True) + "\n")
    write()
    draw(result)
    for claim in contradictions(result):
        logger.warning(
            "docs/reference/emulation.md says that %s, this result does not: read it again", claim
        )


if __name__ == "__main__":
    sys.exit(run(main))
