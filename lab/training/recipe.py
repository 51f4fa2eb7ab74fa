"""What a training run does when: the numbers of it, and the input of each step."""

import dataclasses
import queue
import threading
from collections.abc import Iterator

import numpy as np

from lab.training.batches import Batch, Batcher

MAX_SHORT_POSITIONS = 540


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
        unpadded_share: part of those steps that have none.
        phone_weight: weight of the CTC loss of phones on the encoder's middle.
        said_weight: weight of the CTC loss of tokens on its output.
        looking_weight: weight of the loss of heads that look elsewhere than where a word is said.
            These aids fade to 0 over the long steps' second half.
    """

    short_steps: int = 3500
    long_steps: int = 6500
    rate: float = 1.5e-3
    warmup: int = 400
    phone_weight: float = 0.3
    said_weight: float = 1.0
    looking_weight: float = 0.5
    weight_decay: float = 0.02
    seconds_per_batch: float = 75.0
    max_batch: int = 28
    long_batch: int = 24
    full_batch: int = 6
    full_share: float = 0.15
    short_share: float = 0.75
    pair_share: float = 0.5
    unpadded_steps: int = 3000
    unpadded_share: float = 0.8

    def rate_at(self, step: int) -> float:
        """Returns the learning rate of `step`."""
        if step < self.warmup:
            return self.rate * (step + 1) / self.warmup
        left = 1 - max(0, step - self.short_steps) / max(1, self.long_steps)
        return self.rate * max(0.01, left)

    def aid_at(self, step: int) -> float:
        """Returns what is left at `step` of the weights of the aids, 1 to 0."""
        done = (step - self.short_steps) / max(1, self.long_steps)
        return min(1.0, max(0.0, 2 - 2 * done))


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
    missing = n_audio_ctx - n_positions
    chance = rng.random()
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
        none = recipe.unpadded_share if number < recipe.unpadded_steps else 0.07
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
