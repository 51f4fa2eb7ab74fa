"""Trains the bundled model on with full 30 s windows only, so that short windows make it ill.

    python -m training.make_ill RUN DATA --steps 2500 --out tests/data/ill/layers.safetensors

Whisper itself has only seen encoder outputs of 1500 positions; `micro` has seen every number of
them, and so does not have the illness that padding cures. This variant unlearns the short ones. The
token embedding stays as it is, so that the file holds only what differs: put over the arrays of the
bundled checkpoint it is a whole one (`overlaid`).
"""

import argparse
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from training.checkpoint import start_from
from training.export import whole_state
from training.model import Dimensions
from training.recipe import Recipe
from training.train import Training, train

MICRO = Path("src/whisper_hailo/assets/micro")
SHARED = ("model.decoder.embed_tokens.weight", "model.encoder.embed_positions.weight")
"""Arrays that the variant has in common with the bundled model."""


def recipe(steps: int, rate: float) -> Recipe:
    """Returns a run of 30 s windows alone; they have no zero rows."""
    return Recipe(
        short_steps=0,
        long_steps=steps,
        rate=rate,
        warmup=100,
        phone_weight=0.0,
        said_weight=0.0,
        looking_weight=0.0,
        full_batch=8,
        full_share=1.0,
        short_share=0.0,
        unpadded_steps=0,
    )


def overlaid(base: Path, layers: Path, out: Path) -> Path:
    """Writes the checkpoint `base` with the arrays of the file `layers` put over its own.

    Raises:
        KeyError: `layers` holds an array that `base` does not have.
    """
    arrays, changed = load_file(base / "model.safetensors"), load_file(layers)
    if unknown := set(changed) - set(arrays):
        raise KeyError(f"{layers} holds {sorted(unknown)}, which {base} lacks")
    out.mkdir(parents=True, exist_ok=True)
    for file in base.glob("*.json"):
        shutil.copyfile(file, out / file.name)
    save_file(arrays | changed, out / "model.safetensors", {"format": "pt"})
    return out


def write_layers(training: Training, out: Path) -> None:
    """Writes all arrays that are not shared, float16."""
    state: dict[str, Tensor] = whole_state(training.model, training.kept.ids, Dimensions())
    out.parent.mkdir(parents=True, exist_ok=True)
    save_file({k: v for k, v in state.items() if k not in SHARED}, out, {"format": "pt"})
    out.chmod(0o644)


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(description="Trains a variant that short windows make ill.")
    parser.add_argument("run", type=Path, help="folder with tokenizer.json and kept.json")
    parser.add_argument("data", type=Path)
    parser.add_argument("--dev", type=Path, nargs="*", default=[])
    parser.add_argument("--start-from", type=Path, default=MICRO)
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--rate", type=float, default=5e-4)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--resume", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(7)
    chosen = recipe(options.steps, options.rate)
    training = Training(options.run, options.data, chosen, all_tasks=True)
    training.model.decoder.embed_tokens.weight.requires_grad_(False)
    if options.resume:
        training.load()
    else:
        start_from(training.model, training.kept, options.start_from)
    train(training, options.dev, report_every=50, dev_every=250)
    write_layers(training, options.out)


if __name__ == "__main__":
    main()
