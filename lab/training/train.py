"""Trains `micro`: short windows first, Whisper's own windows at the end.

    python -m lab.training.train RUN DATA ... [--short-steps N] [--long-steps N] [--resume]

RUN holds `tokenizer.json` before, and `state.pt`, `kept.json`, `log.jsonl` after. The state is
saved every few minutes; `--resume` goes on from it, also with other numbers of steps.
"""

import argparse
import dataclasses
import json
import math
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

from lab.training import kept_tokens
from lab.training.augment import ALL_DISTURBANCES
from lab.training.batches import IGNORED, Batcher, Demands
from lab.training.checkpoint import start_from
from lab.training.corpus import Corpus
from lab.training.evaluate import Recognizer, shard_error
from lab.training.losses import Losses, ctc_loss, looking_loss
from lab.training.mel import log_mel
from lab.training.model import Dimensions, Whisper
from lab.training.phones import make_phones
from lab.training.recipe import Recipe, Step, draw_steps, prefetched
from lab.training.text.grammar import Grammar
from lab.training.text.plans import words_of

N_DEV = 160
BETAS = (0.9, 0.999)
"""With a shorter memory of squared gradients each rare token's row jumps whenever it is met."""
ALL_TASKS = Demands(
    timestamps=0.5,
    translate=0.5,
    cut=0.15,
    previous=0.1,
    disturbances=ALL_DISTURBANCES,
    mistaken=0.06,
)


def make_optimizers(model: Whisper, recipe: Recipe) -> list[torch.optim.Optimizer]:
    """Returns Muon for the matrices of the layers and AdamW for all the rest.

    With the same rate for both, 400 steps from the third run's weights had a loss 4 to 10 % lower
    than AdamW alone gave, for 4 to 8 % more time.
    """
    layers = [*model.encoder.layers.parameters(), *model.decoder.layers.parameters()]
    matrices = [weight for weight in layers if weight.ndim == 2]
    taken = {id(weight) for weight in matrices}
    rest = [weight for weight in model.parameters() if id(weight) not in taken]
    decay = recipe.weight_decay
    return [
        torch.optim.Muon(
            matrices, recipe.rate, weight_decay=decay, adjust_lr_fn="match_rms_adamw"
        ),
        torch.optim.AdamW(rest, recipe.rate, BETAS, weight_decay=decay, fused=True),
    ]


class Training:
    """State of a run: model, optimisers, data, and the step it is at."""

    def __init__(
        self,
        run: Path,
        data: list[Path],
        recipe: Recipe,
        *,
        all_tasks: bool = False,
        device: str = "cpu",
        copies: Mapping[str, int] | None = None,
        sizes: Dimensions | None = None,
    ) -> None:
        self.device = torch.device(device)
        self.run = run
        self.recipe = recipe
        self.step = 0
        self.active_s = 0.0
        self.demands = ALL_TASKS if all_tasks else Demands()
        tokenizer = Tokenizer.from_file(str(run / "tokenizer.json"))
        kept_file = run / "kept.json"
        if not kept_file.exists():
            choose = kept_tokens.choose_for_tasks if all_tasks else kept_tokens.choose
            kept_file.write_text(json.dumps(choose(tokenizer).ids))
        self.kept = kept_tokens.KeptTokens(tuple(json.loads(kept_file.read_text())))
        self.tokenizer = tokenizer
        words = words_of("en") if all_tasks else Grammar().words()
        german = frozenset(words_of("de")) if all_tasks else frozenset[str]()
        phones = make_phones(words, run / "phones.json", german)
        self.corpus = Corpus(data, tokenizer, self.kept, phones, copies)
        self.corpus.refresh()
        model = Whisper(sizes or Dimensions(), len(self.kept.ids), len(phones.names))
        self.model = model.to(self.device)
        self.optimizers = make_optimizers(self.model, recipe)

    def save(self) -> None:
        """Writes the state, whole or not at all."""
        state = {
            "step": self.step,
            "active_s": self.active_s,
            "model": self.model.state_dict(),
            "optimizers": [each.state_dict() for each in self.optimizers],
        }
        torch.save(state, self.run / "state.partial")
        (self.run / "state.partial").rename(self.run / "state.pt")

    def load(self) -> None:
        """Reads the state that `save` wrote."""
        state = torch.load(self.run / "state.pt", self.device)
        self.step = state["step"]
        self.active_s = state["active_s"]
        self.model.load_state_dict(state["model"])
        for each, saved in zip(self.optimizers, state["optimizers"], strict=True):
            each.load_state_dict(saved)

    def losses(self, given: Step) -> Losses:
        """Returns the losses of a step, those of CTC 0 where they count for nothing."""
        batch = given.batch.to(self.device)
        mel = log_mel(batch.audio)
        model = self.model
        with torch.autocast(self.device.type, torch.bfloat16):
            features, middle = model.encoder.with_middle(mel, given.first)
            seen: list[Tensor] = []
            logits = model.decoder(batch.tokens, features, given.n_padding, seen=seen)
            tokens = functional.cross_entropy(
                logits.float().flatten(0, 1),
                batch.targets.flatten(),
                ignore_index=IGNORED,
            )
            if self.recipe.aid_at(self.step) == 0.0:
                return Losses(tokens, *(tokens.new_zeros(()) for _ in range(3)))
            phones = ctc_loss(model.phone_log_probs(middle), batch.phones)
            said = tokens.new_zeros(())
            if self.recipe.said_weight:
                said = ctc_loss(model.token_log_probs(features), batch.said)
            return Losses(tokens, phones, said, looking_loss(seen, batch.spans))

    def update(self, given: Step) -> tuple[float, ...]:
        """Takes one step; returns its losses."""
        for group in (group for each in self.optimizers for group in each.param_groups):
            group["lr"] = self.recipe.rate_at(self.step)
        losses = self.losses(given)
        self.model.zero_grad()
        loss = losses.tokens + self.recipe.aid_at(self.step) * self._aids(losses)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        if math.isfinite(float(norm)):
            for each in self.optimizers:
                each.step()
        self.step += 1
        return tuple(float(loss.detach()) for loss in losses)

    def _aids(self, losses: Losses) -> Tensor:
        recipe = self.recipe
        ctc = recipe.phone_weight * losses.phones + recipe.said_weight * losses.said
        return ctc + recipe.looking_weight * losses.looking


def train(
    training: Training, dev: list[Path], report_every: int, dev_every: int
) -> None:
    """Runs all the steps that are left, with a log line every `report_every` of them."""
    recipe = training.recipe
    rng = np.random.default_rng([7, training.step])
    batcher = Batcher(training.corpus.utterances, training.kept, rng, training.demands)
    losses = []
    began = time.monotonic()
    utterances = 0
    for given in prefetched(draw_steps(recipe, training.step, batcher)):
        losses.append(training.update(given))
        utterances += len(given.batch.phones)
        if training.step % report_every:
            continue
        elapsed = time.monotonic() - began
        training.active_s += elapsed
        mean = np.mean(losses, axis=0)
        entry: dict[str, object] = {
            "step": training.step,
            "minutes": round(training.active_s / 60, 2),
            "loss": round(float(mean[0]), 4),
            "ctc": round(float(mean[1]), 4),
            "ctc_tokens": round(float(mean[2]), 4),
            "looking": round(float(mean[3]), 4),
            "rate": recipe.rate_at(training.step - 1),
            "utterances_per_s": round(utterances / elapsed, 1),
            "n_utterances": training.corpus.refresh(),
        }
        if training.step % dev_every == 0:
            recognizer = Recognizer(training.model, training.kept, training.tokenizer)
            for folder in dev:
                entry[folder.name] = dataclasses.asdict(
                    shard_error(recognizer, folder, N_DEV)
                )
            training.save()
        with (training.run / "log.jsonl").open("a") as log:
            log.write(json.dumps(entry) + "\n")
        sys.stderr.write(json.dumps(entry) + "\n")
        losses = []
        began = time.monotonic()
        utterances = 0
    training.save()


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(description="Trains the bundled model.")
    parser.add_argument("run", type=Path)
    parser.add_argument("data", type=Path, nargs="+", help="folders of shards")
    parser.add_argument(
        "--dev",
        type=Path,
        required=True,
        nargs="+",
        help="folders of shards never trained on",
    )
    parser.add_argument(
        "--start-from", type=Path, help="checkpoint whose weights to begin with"
    )
    parser.add_argument("--aids", type=Path, help="CTC heads of that checkpoint's run")
    for field in dataclasses.fields(Recipe):
        name = "--" + field.name.replace("_", "-")
        parser.add_argument(
            name, type=type(field.default), default=field.default, help="recipe"
        )
    for half in ("encoder", "decoder"):
        default = getattr(Dimensions(), f"n_{half}_layers")
        parser.add_argument(
            f"--{half}-layers", type=int, default=default, help="micro's"
        )
    parser.add_argument("--report-every", type=int, default=100)
    parser.add_argument("--dev-every", type=int, default=500)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu", help="of torch: cpu, cuda")
    parser.add_argument("--all-tasks", action="store_true", help="data of make_corpus")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument(
        "--more", nargs="+", default=[], help="voices heard more often, as NAME=TIMES"
    )
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(7)
    recipe = Recipe(
        *(getattr(options, field.name) for field in dataclasses.fields(Recipe))
    )
    training = Training(
        options.run,
        options.data,
        recipe,
        all_tasks=options.all_tasks,
        device=options.device,
        copies={
            name: int(times)
            for name, times in (word.split("=") for word in options.more)
        },
        sizes=Dimensions(
            n_encoder_layers=options.encoder_layers,
            n_decoder_layers=options.decoder_layers,
        ),
    )
    if options.resume:
        training.load()
    elif options.start_from:
        fresh = start_from(
            training.model, training.kept, options.start_from, options.aids
        )
        sys.stderr.write(f"{fresh} of {len(training.kept.ids)} tokens are new\n")
    train(training, options.dev, options.report_every, options.dev_every)


if __name__ == "__main__":
    main()
