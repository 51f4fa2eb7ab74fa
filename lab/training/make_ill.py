"""Trains a variant of the bundled model that short windows make ill, for the tests of the cures.

    python -m lab.training.make_ill DATA ... --phones PHONES --out tests/data/ill

Whisper has only met encoder outputs of 1500 positions; `micro` has met every number of them, and so
does not have the illness that padding cures. The variant is given the same lesson as Whisper: its
decoder's cross-attention is drawn anew and learnt again, always with zero rows up to 1500 and never
without. Half of its windows end after any word, from where on all rows are zeros, so that nothing
but those rows tells when a text is over; heads learn to look at them there. The encoder and the
tokens stay as they are. It is English alone, without times.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

from lab.training import whisper_vocabulary as ids
from lab.training.batches import IGNORED, Batch, Batcher
from lab.training.checkpoint import start_from
from lab.training.corpus import Corpus, sentence_entries
from lab.training.export import write_packed
from lab.training.kept_tokens import PREFIX, KeptTokens
from lab.training.losses import POSITION_S, looking_loss, resting_loss
from lab.training.mel import log_mel
from lab.training.model import Attention, Dimensions, Whisper
from lab.training.phones import make_phones
from lab.training.targets import NOWHERE
from lab.training.text.plans import words_of

MICRO = Path("src/whisper_hailo/assets/micro")
N_AUDIO_CTX = 1500
REST_RATE = 0.25
"""Learning rate of the decoder's other weights, as a part of that of its cross-attention."""
AID_WEIGHT = 0.5
CUT_SHARE = 0.3
EDGE_S = 0.01
WARMUP = 30


@dataclass(frozen=True, slots=True)
class Lesson:
    """Some windows of one length: `features` `(batch, n, d_model)`, tokens and spans as `Batch`.

    `heard` `(batch, n)` bool tells rows of sound from zero rows.
    """

    features: Tensor
    tokens: Tensor
    targets: Tensor
    spans: Tensor
    heard: Tensor


def english_tokens(folders: list[Path], tokenizer: Tokenizer) -> KeptTokens:
    """Returns the ids of all that is said in English in these shards, and the special ones."""
    found = {*PREFIX, ids.EOT, ids.NO_SPEECH}
    for manifest in (
        file for folder in folders for file in sorted(folder.glob("*.jsonl"))
    ):
        for line in manifest.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            if entry.get("language", "en") == "en":
                texts = [" " + given["text"] for given in sentence_entries(entry)]
                found.update(
                    *(encoded.ids for encoded in tokenizer.encode_batch(texts))
                )
    return KeptTokens(tuple(sorted(found)))


def draw(batcher: Batcher, number: int) -> Batch:
    """Returns windows that the speech fills, every second time; else with silence behind it."""
    if number % 2:
        return batcher.long(20.0, 8) if number % 4 == 1 else batcher.long(10.0, 16)
    return batcher.pairs(75.0, 16) if number % 4 else batcher.short(75.0, 16)


@torch.no_grad()
def lessons(model: Whisper, batcher: Batcher, n_batches: int) -> Iterator[Lesson]:
    """Yields what the decoder learns from; the encoder does not change, so once is enough."""
    for number in range(n_batches):
        batch = draw(batcher, number)
        with torch.autocast("cpu", torch.bfloat16):
            features = model.encoder(log_mel(batch.audio))
        heard = torch.ones(features.shape[:2], dtype=torch.bool)
        yield Lesson(features.half(), batch.tokens, batch.targets, batch.spans, heard)


def shortened(
    lesson: Lesson, eot: int, share: float, rng: np.random.Generator
) -> Lesson:
    """Returns a copy, float32, of which a share of the windows end after any of their words."""
    features = lesson.features.float()
    heard = lesson.heard.clone()
    targets = lesson.targets.clone()
    spans = lesson.spans.clone()
    for row, span in enumerate(lesson.spans):
        # A word's tokens have one span: a new word is one that starts where the last has ended.
        known = span[1:, 1] > span[1:, 0]
        starts = (
            known
            & (span[:-1, 1] > span[:-1, 0])
            & (span[1:, 0] >= span[:-1, 1] - EDGE_S)
        )
        places = starts.nonzero()[:, 0] + 1
        if not len(places) or rng.random() >= share:
            continue
        place = int(places[rng.integers(len(places))])
        end = int(float(span[:place, 1].max()) / POSITION_S) + int(rng.integers(1, 4))
        features[row, end:] = 0.0
        heard[row, end:] = False
        targets[row, place] = eot
        targets[row, place + 1 :] = IGNORED
        spans[row, place:] = torch.tensor(NOWHERE)
    return Lesson(features, lesson.tokens, targets, spans, heard)


def forget_to_look(model: Whisper) -> list[Attention]:
    """Draws the decoder's cross-attention anew; returns it."""
    for layer in model.decoder.layers:
        layer.encoder_attn = Attention(Dimensions())
    return [layer.encoder_attn for layer in model.decoder.layers]


def loss_of(model: Whisper, lesson: Lesson, eot: int) -> Tensor:
    """Returns the loss of the tokens and of where the heads look, `(3,)`."""
    seen: list[Tensor] = []
    n_padding = N_AUDIO_CTX - lesson.features.shape[1]
    with torch.autocast("cpu", torch.bfloat16):
        logits = model.decoder(lesson.tokens, lesson.features, n_padding, seen=seen)
    tokens = functional.cross_entropy(
        logits.float().flatten(0, 1), lesson.targets.flatten(), ignore_index=IGNORED
    )
    ends = lesson.targets == eot
    rests = resting_loss(seen, lesson.heard, ends)
    return torch.stack([tokens, looking_loss(seen, lesson.spans), rests])


def train(
    model: Whisper, given: list[Lesson], eot: int, steps: int, rate: float
) -> None:
    """Trains the decoder but for its tokens; the rate falls to a twentieth."""
    model.decoder.embed_tokens.weight.requires_grad_(False)
    cross = [weight for part in forget_to_look(model) for weight in part.parameters()]
    taken = {id(weight) for weight in cross}
    rest = [
        p for p in model.decoder.parameters() if p.requires_grad and id(p) not in taken
    ]
    optimizer = torch.optim.AdamW(
        [{"params": cross}, {"params": rest}], rate, (0.9, 0.99)
    )
    weights = torch.tensor([1.0, AID_WEIGHT, AID_WEIGHT])
    rng = np.random.default_rng(3)
    seen = []
    began = time.monotonic()
    for step in range(steps):
        now = rate * min(1.0, (step + 1) / WARMUP) * (1 - 0.95 * step / steps)
        for group, part in zip(optimizer.param_groups, (1.0, REST_RATE), strict=True):
            group["lr"] = now * part
        drawn = shortened(given[rng.integers(len(given))], eot, CUT_SHARE, rng)
        losses = loss_of(model, drawn, eot)
        optimizer.zero_grad()
        (losses @ weights).backward()
        torch.nn.utils.clip_grad_norm_([*cross, *rest], 1.0)
        optimizer.step()
        seen.append(losses.detach())
        if (step + 1) % 50 == 0:
            mean = [round(float(loss), 3) for loss in torch.stack(seen[-50:]).mean(0)]
            sys.stderr.write(
                f"step {step + 1}: {mean}, {time.monotonic() - began:.0f} s\n"
            )


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(
        description="Trains a variant that short windows make ill."
    )
    parser.add_argument("data", type=Path, nargs="+", help="folders of shards")
    parser.add_argument(
        "--phones", type=Path, required=True, help="phones.json of a run"
    )
    parser.add_argument("--start-from", type=Path, default=MICRO)
    parser.add_argument("--batches", type=int, default=160)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(7)
    tokenizer = Tokenizer.from_file(str(options.start_from / "tokenizer.json"))
    kept = english_tokens(options.data, tokenizer)
    phones = make_phones(words_of("en"), options.phones, frozenset(words_of("de")))
    corpus = Corpus(options.data, tokenizer, kept, phones)
    corpus.refresh()
    english = [other for other in corpus.utterances if other.language == "en"]
    model = Whisper(Dimensions(), len(kept.ids))
    start_from(model, kept, options.start_from)
    batcher = Batcher(english, kept, np.random.default_rng(5))
    given = list(lessons(model, batcher, options.batches))
    sys.stderr.write(
        f"{len(english)} utterances, {len(kept.ids)} tokens, {len(given)} batches\n"
    )
    train(model, given, kept.rows([ids.EOT])[0], options.steps, options.rate)
    write_packed(model, kept.ids, Dimensions(), options.out)


if __name__ == "__main__":
    main()
