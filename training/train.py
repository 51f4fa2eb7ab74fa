"""Trains `micro`: short windows first, Whisper's own windows at the end.

    python -m training.train RUN DATA [--short-steps N] [--long-steps N] [--resume]

RUN holds `tokenizer.json` before, and `state.pt`, `kept.json`, `log.jsonl` after. The state is
saved every few minutes; `--resume` goes on from it, also with other numbers of steps.
"""

import argparse
import dataclasses
import json
import math
import queue
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

from training import kept_tokens
from training.augment import ALL_DISTURBANCES
from training.batches import IGNORED, Batch, Batcher, Demands
from training.corpus import Corpus
from training.evaluate import Recognizer, shard_error
from training.mel import log_mel
from training.model import Dimensions, Whisper
from training.phones import make_phones
from training.text.grammar import Grammar
from training.text.plans import words_of

N_DEV = 160
MAX_SHORT_POSITIONS = 540
ALL_TASKS = Demands(timestamps=0.5, translate=0.5, cut=0.15, disturbances=ALL_DISTURBANCES)


@dataclasses.dataclass(frozen=True, slots=True)
class Recipe:
    """Numbers of a training run.

    Attributes:
        short_steps: steps on short windows, at constant learning rate after the warm-up.
        long_steps: steps after them, the rate falling to 0; the part `short_share` of them stays on
            short windows (`pair_share` of these with two utterances), of the others the part
            `full_share` is on 30 s and the rest on 10 s.
        unpadded_steps: steps at the start of which most have no zero rows: their one key of score
            `ln P` draws all attention to itself before there is any to the audio.
        ctc_weight: weight of the CTC loss; it fades to 0 over the long steps' second half.
    """

    short_steps: int = 3500
    long_steps: int = 6500
    rate: float = 1.5e-3
    warmup: int = 400
    ctc_weight: float = 1.0
    weight_decay: float = 0.02
    seconds_per_batch: float = 75.0
    max_batch: int = 28
    long_batch: int = 24
    full_batch: int = 6
    full_share: float = 0.15
    short_share: float = 0.6
    pair_share: float = 0.5
    unpadded_steps: int = 3000

    def rate_at(self, step: int) -> float:
        """Returns the learning rate of `step`."""
        if step < self.warmup:
            return self.rate * (step + 1) / self.warmup
        left = 1 - max(0, step - self.short_steps) / max(1, self.long_steps)
        return self.rate * max(0.01, left)

    def ctc_at(self, step: int) -> float:
        """Returns the weight of the CTC loss at `step`."""
        done = (step - self.short_steps) / max(1, self.long_steps)
        return self.ctc_weight * min(1.0, max(0.0, 2 - 2 * done))


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """Input of one step: a batch, its first encoder position, its number of zero rows."""

    batch: Batch
    first: int
    n_padding: int


def n_padding(
    n_positions: int, rng: np.random.Generator, none: float, n_audio_ctx: int = 1500
) -> int:
    """Draws the number of zero rows: mostly up to the full context, sometimes fewer or none.

    Args:
        n_positions: length of the encoder output.
        rng: source of chance.
        none: share of steps without any.
        n_audio_ctx: the full context.
    """
    missing, chance = n_audio_ctx - n_positions, rng.random()
    if missing == 0 or rng.random() < none:
        return 0
    return int(rng.integers(1, missing + 1)) if chance < 0.15 else missing


def draw_steps(recipe: Recipe, step: int, batcher: Batcher) -> Iterator[Step]:
    """Yields the input of `step` and of all steps after it."""
    rng = np.random.default_rng([8, step])
    for number in range(step, recipe.short_steps + recipe.long_steps):
        first = 0
        if number >= recipe.short_steps and rng.random() > recipe.short_share:
            full = rng.random() < recipe.full_share
            size = recipe.full_batch if full else recipe.long_batch
            batch = batcher.long(30.0 if full else 10.0, size)
        else:
            paired = number >= recipe.short_steps and rng.random() < recipe.pair_share
            draw = batcher.pairs if paired else batcher.short
            if rng.random() < 0.25:
                first = int(rng.integers(0, 1500 - MAX_SHORT_POSITIONS))
            batch = draw(recipe.seconds_per_batch, recipe.max_batch, first * 0.02)
        none = 0.8 if number < recipe.unpadded_steps else 0.07
        yield Step(batch, first, n_padding(batch.audio.shape[1] // 320, rng, none))


def prefetched(steps: Iterator[Step], depth: int = 3) -> Iterator[Step]:
    """Yields `steps`, up to `depth` of them made ahead in a thread."""
    ready: queue.Queue[Step | None] = queue.Queue(depth)

    def work() -> None:
        for step in steps:
            ready.put(step)
        ready.put(None)

    threading.Thread(target=work, daemon=True).start()
    while (step := ready.get()) is not None:
        yield step


def ctc_loss(model: Whisper, features: Tensor, phones: list[list[int]]) -> Tensor:
    """Returns the CTC loss of the phones given audio features, per phone."""
    log_probs = model.ctc_log_probs(features).transpose(0, 1)
    lengths = torch.tensor([len(line) for line in phones])
    flat = torch.tensor([phone for line in phones for phone in line])
    inputs = torch.full_like(lengths, log_probs.shape[0])
    blank = log_probs.shape[-1] - 1
    return functional.ctc_loss(
        log_probs, flat, inputs, lengths, blank, reduction="sum", zero_infinity=True
    ) / max(1, flat.numel())


class Training:
    """State of a run: model, optimiser, data, and the step it is at."""

    def __init__(self, run: Path, data: Path, recipe: Recipe, all_tasks: bool = False) -> None:
        self.run, self.recipe, self.step, self.active_s = run, recipe, 0, 0.0
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
        self.corpus = Corpus(data, tokenizer, self.kept, phones)
        self.corpus.refresh()
        self.model = Whisper(Dimensions(), len(self.kept.ids), len(phones.names))
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(),
            recipe.rate,
            (0.9, 0.98),
            weight_decay=recipe.weight_decay,
            fused=True,
        )

    def save(self) -> None:
        """Writes the state, whole or not at all."""
        state = {
            "step": self.step,
            "active_s": self.active_s,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }
        torch.save(state, self.run / "state.partial")
        (self.run / "state.partial").rename(self.run / "state.pt")

    def load(self) -> None:
        """Reads the state that `save` wrote."""
        state = torch.load(self.run / "state.pt")
        self.step, self.active_s = state["step"], state["active_s"]
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])

    def losses(self, given: Step) -> tuple[Tensor, Tensor]:
        """Returns the decoder's cross-entropy and the encoder's CTC loss."""
        batch = given.batch
        mel = log_mel(batch.audio)
        with torch.autocast("cpu", torch.bfloat16):
            features = self.model.encoder(mel, given.first)
            logits = self.model.decoder(batch.tokens, features, given.n_padding)
            cross_entropy = functional.cross_entropy(
                logits.float().flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORED
            )
            if self.recipe.ctc_at(self.step) == 0.0:
                return cross_entropy, cross_entropy.new_zeros(())
            return cross_entropy, ctc_loss(self.model, features, batch.phones)

    def update(self, given: Step) -> tuple[float, float]:
        """Takes one step; returns both losses."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.rate_at(self.step)
        cross_entropy, ctc = self.losses(given)
        self.optimizer.zero_grad()
        loss = cross_entropy + self.recipe.ctc_at(self.step) * ctc
        loss.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        if math.isfinite(float(norm)):
            self.optimizer.step()
        self.step += 1
        return float(cross_entropy.detach()), float(ctc.detach())


def train(training: Training, dev: Path, report_every: int, dev_every: int) -> None:
    """Runs all the steps that are left, with a log line every `report_every` of them."""
    recipe, rng = training.recipe, np.random.default_rng([7, training.step])
    batcher = Batcher(training.corpus.utterances, training.kept, rng, training.demands)
    losses, began, utterances = [], time.monotonic(), 0
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
            "rate": recipe.rate_at(training.step - 1),
            "utterances_per_s": round(utterances / elapsed, 1),
            "n_utterances": training.corpus.refresh(),
        }
        if training.step % dev_every == 0:
            recognizer = Recognizer(training.model, training.kept, training.tokenizer)
            entry["dev"] = dataclasses.asdict(shard_error(recognizer, dev, N_DEV))
            training.save()
        with (training.run / "log.jsonl").open("a") as log:
            log.write(json.dumps(entry) + "\n")
        sys.stderr.write(json.dumps(entry) + "\n")
        losses, began, utterances = [], time.monotonic(), 0
    training.save()


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(description="Trains the bundled model.")
    parser.add_argument("run", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--dev", type=Path, required=True, help="folder of shards never trained on")
    parser.add_argument("--short-steps", type=int, default=Recipe().short_steps)
    parser.add_argument("--long-steps", type=int, default=Recipe().long_steps)
    parser.add_argument("--report-every", type=int, default=100)
    parser.add_argument("--dev-every", type=int, default=500)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--all-tasks", action="store_true", help="data of make_corpus")
    parser.add_argument("--resume", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(7)
    recipe = Recipe(short_steps=options.short_steps, long_steps=options.long_steps)
    training = Training(options.run, options.data, recipe, options.all_tasks)
    if options.resume:
        training.load()
    train(training, options.dev, options.report_every, options.dev_every)


if __name__ == "__main__":
    main()
