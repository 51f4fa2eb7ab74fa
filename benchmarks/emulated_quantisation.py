"""What the chip's 8 and 16 bits cost the bundled model: signal-to-noise ratio and word errors.

    python benchmarks/emulated_quantisation.py [--parts encoder decoder] [--draw]

Measures every plan on the frozen clips of `tests/data/micro`, writes the result file, the picture
and the tables of `docs/conversion.md`; `--draw` makes the last two from the result file alone.
Scales are chosen by one third of the clips of known voices, everything is measured on the others.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import onnx
import onnxruntime

from benchmarks.emulated_report import DOCS, RESULT, contradictions, draw, insert_tables
from whisper_hailo import Transcriber
from whisper_hailo.backends.options import EngineOptions
from whisper_hailo.bench.score import evaluate
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.emulate import (
    METHODS,
    Network,
    Noise,
    Statistics,
    collect,
    emulated,
    measure_noise,
    plan_of_script,
    preset,
    read_network,
)
from whisper_hailo.convert.emulate.make import load_form, write_whole
from whisper_hailo.convert.emulate.script import generated_script
from whisper_hailo.convert.emulate.windows import WindowFile
from whisper_hailo.convert.hailo.calibrate.make import calibrate
from whisper_hailo.convert.hailo.calibrate.options import CalibrationOptions
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.core.hailo import HailoForm
from whisper_hailo.core.spec import ModelSpec

ROOT = Path(__file__).parents[1]
MICRO = ROOT / "src" / "whisper_hailo" / "assets" / "micro"
DATA = ROOT / "tests" / "data" / "micro"
SPOKEN = ("seen", "noisy", "unseen")
PLANS = ("all8", "adds16", "norms16", "script")
EXACT = "float32"
KINDS = {
    "residual adds": "ew_add",
    "layer norms": "layer_normalization",
    "linear products": "conv",
    "attention's products": "matmul",
    "softmax": "softmax",
}
"""Kinds of layers that are set to 8 bits alone, all else having 16."""

MANY_WINDOWS = 256
"""More than there are clips, so that each set holds every window of its clips."""


class Part:
    """One part of the model with the windows it is measured on."""

    def __init__(self, directory: Path, spec: ModelSpec, part: str, root: Path) -> None:
        self.directory, self.spec = directory, spec
        self.form: HailoForm = next(form for form in spec.hailo if form.part == part)
        self.model = load_form(directory / self.form.file)
        self.network: Network = read_network(self.model, self.form.start_nodes, self.form.end_nodes)
        options = CalibrationOptions(part=part, count=MANY_WINDOWS)
        self.windows = {
            name: WindowFile(
                calibrate(directory, root / name, root / f"{name}-{part}", options).path,
                self.form,
                self.network.entries,
            )
            for name in ("scales", "measured")
        }
        self.statistics: Statistics = collect(
            self.model, self.network, self._all("scales"), threads=1
        )

    def _all(self, name: str) -> Iterable[Any]:
        return self.windows[name].read(0, self.windows[name].n_windows)

    def script(self, plan: str) -> str:
        """The model script of a plan."""
        if plan == "script":
            return generated_script(self.spec, self.form, "hailo8l", self.network)
        return preset(plan)

    def write(self, name: str, script: str, scales: str = "mse") -> onnx.ModelProto:
        """Write the emulated graph where the emulator looks for it."""
        form = self.form
        plan = plan_of_script(name, script, self.network, form.start_nodes, form.end_nodes)
        graph = emulated(self.model, plan, self.statistics, scales=scales)
        path = self.directory / form.emulated_file
        write_whole(path, graph.SerializeToString(deterministic=True))
        record = {"plan": name, "graph_sha256": self.spec.files[form.file].sha256}
        write_whole(path.with_suffix(".json"), json.dumps(record).encode())
        return graph

    def noise(self, name: str, script: str, scales: str = "mse") -> Noise:
        """What rounding by a script costs."""
        graph = self.write(name, script, scales)
        return measure_noise(self.model, graph, self.network, self._all("measured"), threads=1)


def measure(parts: list[str], result: dict[str, Any]) -> dict[str, Any]:
    """Everything, one part after the other."""
    with tempfile.TemporaryDirectory(prefix="emulation-") as folder:
        root = Path(folder)
        directory = root / "micro"
        convert_checkpoint(MICRO, directory, ConvertOptions(hailo=HailoOptions()))
        spec = ModelSpec.load(directory)
        clips = split_clips(root)
        fewer = clips[::2]  # a decoder without a cache is slow
        made = {part: Part(directory, spec, part, root) for part in (*parts, "encoder")}
        for part in parts:
            result[part] = measure_part(made[part], clips if part == "encoder" else fewer)
        if "decoder" in parts:
            for part in made.values():
                part.write("script", part.script("script"))
            result["both"] = row_of_both(directory, fewer)
    result["model_sha256"] = spec.source.sha256
    result["machine"] = f"{platform.machine()}, ONNX Runtime {onnxruntime.__version__}"
    return result


def split_clips(root: Path) -> list[Path]:
    """Every third clip of the known voices sets the scales; the others are measured on."""
    measured = []
    for name in SPOKEN:
        files = sorted(path for path in (DATA / name).iterdir() if path.suffix in {".ogg", ".flac"})
        for i, path in enumerate(files):
            for_scales = name != "unseen" and i % 3 == 0
            folder = root / ("scales" if for_scales else "measured")
            folder.mkdir(exist_ok=True)
            shutil.copy(path, folder / path.name)
            if not for_scales:
                measured.append(path)
    return measured


def measure_part(part: Part, clips: list[Path]) -> dict[str, Any]:
    """Plans with word errors; ways to choose scales and single kinds without."""
    rows = [row(EXACT, words(part, clips, exact=True))]
    for plan in PLANS:
        noise = part.noise(plan, part.script(plan))
        rows.append(row(plan, words(part, clips, exact=False), part, noise))
    scales = {
        plan: {
            method: figures(part, part.noise(plan, part.script(plan), method))["snr_db"]
            for method in METHODS
        }
        for plan in PLANS
    }
    return {
        "windows": {name: file.n_windows for name, file in part.windows.items()},
        "plans": rows,
        "scales": scales,
        "kinds": kinds(part),
    }


def kinds(part: Part) -> dict[str, float]:
    """Noise of one kind of layers at 8 bits when all others have 16, and of all at 16."""
    wide = "quantization_param({*}, precision_mode=a16_w16)\n"
    found = {"none": figures(part, part.noise("all16", wide))["snr_db"]}
    for name, kind in KINDS.items():
        narrow = f"quantization_param({{{kind}*}}, precision_mode=a8_w8)\n"
        found[name] = figures(part, part.noise(kind, wide + narrow))["snr_db"]
    return found


def figures(part: Part, noise: Noise) -> dict[str, Any]:
    """Noise of what leaves the part: features, or the hidden state before the vocabulary.

    The vocabulary's own logits would flatter a model that uses few of its tokens.
    """
    tensor = next(iter(part.form.outputs))
    if part.form.part == "decoder":
        products = [layer for layer in part.network.layers if layer.kind == "conv"]
        tensor = products[-1].slots[0].origin
    entry = next(entry for entry in noise.layers if entry.tensor == tensor)
    adds = [entry.snr_db for entry in noise.layers if entry.layer.startswith("ew_add")]
    return {"snr_db": entry.snr_db, "cosine": entry.cosine, "adds_snr_db": adds}


def row(
    plan: str, errors: dict[str, Any], part: Part | None = None, noise: Noise | None = None
) -> dict[str, Any]:
    """One row of the table."""
    extra = {} if part is None or noise is None else figures(part, noise)
    return {"plan": plan, **extra, **errors}


def words(part: Part, clips: list[Path], *, exact: bool) -> dict[str, Any]:
    """Word errors of the pipeline with this part emulated, or in its exact fixed form."""
    if part.form.part == "encoder":
        options = EngineOptions(
            encoder=part.directory / part.form.file if exact else None,
            encoder_backend="onnx" if exact else "emulator",
        )
    else:
        options = EngineOptions(decoder_backend="fixed" if exact else "emulator")
    return word_errors(part.directory, options, clips)


def row_of_both(directory: Path, clips: list[Path]) -> dict[str, Any]:
    """Both parts as the script says."""
    options = EngineOptions(encoder_backend="emulator", decoder_backend="emulator")
    return row("script", word_errors(directory, options, clips))


def word_errors(directory: Path, options: EngineOptions, clips: list[Path]) -> dict[str, Any]:
    """Corpus word error rate with its counts and its interval over files."""
    with Transcriber.from_model(str(directory), engine=options, threads=1) as transcriber:
        pairs = [
            (
                path.with_suffix(".txt").read_text(encoding="utf-8"),
                transcriber.transcribe(path).text,
            )
            for path in clips
        ]
    found = evaluate(pairs)
    low, high = found.wer_interval()
    return {
        "wer": found.words.rate,
        "interval": [low, high],
        "clips": len(clips),
        "words": found.words.reference_count,
        "substitutions": found.words.substitutions,
        "deletions": found.words.deletions,
        "insertions": found.words.insertions,
    }


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(description="Emulated quantisation of the bundled model.")
    parser.add_argument("--parts", nargs="+", default=["encoder", "decoder"])
    parser.add_argument("--draw", action="store_true", help="only from the result file")
    chosen = parser.parse_args()
    result = json.loads(RESULT.read_text()) if RESULT.is_file() else {}
    if not chosen.draw:
        result = measure(chosen.parts, result)
        RESULT.write_text(json.dumps(result, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    DOCS.write_text(insert_tables(DOCS.read_text(encoding="utf-8"), result), encoding="utf-8")
    draw(result)
    for claim in contradictions(result):
        print(f"{DOCS} says that {claim}, this result does not: read its text again")


if __name__ == "__main__":
    main()
