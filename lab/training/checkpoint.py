"""Reads an exported checkpoint back into the training-time model, to measure it or to go on."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from lab.training import whisper_vocabulary as ids
from lab.training.kept_tokens import KeptTokens
from lab.training.model import BIAS_CHANNEL, Dimensions, Whisper


def load_checkpoint(folder: Path) -> tuple[Whisper, KeptTokens]:
    """Returns the model of a Hugging Face folder, in float32, and the identity map of its ids.

    Raises:
        KeyError: an array is missing.
    """
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    sizes = Dimensions(
        n_mels=config["num_mel_bins"],
        d_model=config["d_model"],
        n_encoder_layers=config["encoder_layers"],
        n_decoder_layers=config["decoder_layers"],
        ffn=config["encoder_ffn_dim"],
        head_size=config["d_model"] // config["encoder_attention_heads"],
        n_audio_ctx=config["max_source_positions"],
        n_text_ctx=config["max_target_positions"],
    )
    arrays = load_file(folder / "model.safetensors")
    state = {
        name.removeprefix("model."): value.float() for name, value in arrays.items()
    }
    model = Whisper(sizes, ids.N_VOCAB)
    model.encoder.positions = state.pop("encoder.embed_positions.weight")
    heads = {
        name: value
        for name, value in model.state_dict().items()
        if name.startswith("ctc_")
    }
    model.load_state_dict(state | heads)
    torch.nn.Module.eval(model)
    return model, KeptTokens(tuple(range(ids.N_VOCAB)))


def trained_rows(rows: Tensor) -> Tensor:
    """Returns which rows `(n,)` bool of an embedding were trained: the others have but a bias."""
    return rows[:, :BIAS_CHANNEL].abs().amax(dim=1) > 0


@torch.no_grad()
def trimmed(model: Whisper, kept: KeptTokens) -> tuple[Whisper, KeptTokens]:
    """Leaves out of a whole vocabulary what can never win: the same texts in an eighth of the time.

    Probabilities stay what they are, too: what is left out has none that counts.
    """
    embedding = model.decoder.embed_tokens.weight
    known = trained_rows(embedding)
    model.decoder.embed_tokens.weight = torch.nn.Parameter(embedding[known])
    return model, KeptTokens(
        tuple(kept.ids[row] for row in known.nonzero()[:, 0].tolist())
    )


def count_layers(state: dict[str, Tensor], half: str) -> int:
    """How many layers the half of a model has, `encoder` or `decoder`, by its weights' names."""
    prefix = f"{half}.layers."
    return 1 + max(int(name.split(".")[2]) for name in state if name.startswith(prefix))


def deepened(
    state: dict[str, Tensor], n_layers: int, fresh: dict[str, Tensor]
) -> dict[str, Tensor]:
    """Spreads an encoder's layers over `n_layers`, the new ones among them changing nothing yet.

    Half of the new layers follow the old ones' first half and the rest the second, so that the
    middle, which the CTC of phones reads, stays where it was. A layer adds nothing while what its
    two parts put out is multiplied by 0.

    Args:
        state: weights of a model of fewer layers, or of as many.
        n_layers: those wanted, by as even a number more as there are.
        fresh: weights of an untrained model of `n_layers`.
    """
    prefix = "encoder.layers."
    old = count_layers(state, "encoder")
    half = (old + 1) // 2
    more = (n_layers - old) // 2
    spread = {
        name: value for name, value in state.items() if not name.startswith(prefix)
    }
    for name, value in fresh.items():
        if name.startswith(prefix):
            silent = ".out_proj." in name or ".fc2." in name
            spread[name] = torch.zeros_like(value) if silent else value
    for name, value in state.items():
        if name.startswith(prefix):
            number, rest = name.removeprefix(prefix).split(".", 1)
            place = int(number) + (more if int(number) >= half else 0)
            spread[f"{prefix}{place}.{rest}"] = value
    return spread


def thinned(
    state: dict[str, Tensor], n_encoder_layers: int, n_decoder_layers: int
) -> dict[str, Tensor]:
    """Leaves out layers of a model, evenly: the last is kept, which has the guided heads.

    Args:
        state: weights of a model of as many layers, or of more.
        n_encoder_layers: those to keep.
        n_decoder_layers: likewise.
    """
    left = dict(state)
    for half, wanted in (("encoder", n_encoder_layers), ("decoder", n_decoder_layers)):
        prefix = f"{half}.layers."
        old = count_layers(state, half)
        if old <= wanted:
            continue
        places = {place: new for new, place in enumerate(_spread(old, wanted))}
        for name in [name for name in left if name.startswith(prefix)]:
            value = left.pop(name)
            number, rest = name.removeprefix(prefix).split(".", 1)
            if int(number) in places:
                left[f"{prefix}{places[int(number)]}.{rest}"] = value
    return left


def _spread(n: int, wanted: int) -> list[int]:
    """So many of the numbers below `n`, evenly, the last among them."""
    return [round((place + 1) * n / wanted) - 1 for place in range(wanted)]


@torch.no_grad()
def start_from(
    model: Whisper, kept: KeptTokens, folder: Path, aids: Path | None = None
) -> int:
    """Gives `model`, of the vocabulary `kept`, the weights of a checkpoint; returns the new rows.

    A token that the checkpoint was not trained on starts near the mean of those it was: its row
    there holds nothing but the constant channel that shuts it out. The CTC heads start
    afresh, since checkpoints have none, unless `aids` holds them.

    Args:
        model: to be given weights.
        kept: its vocabulary.
        folder: checkpoint.
        aids: the CTC heads that `export` kept of the checkpoint's run, if that had this vocabulary.

    Raises:
        RuntimeError: the sizes differ in more than the number of layers.
    """
    trained, _ = load_checkpoint(folder)
    state = trained.state_dict()
    rows = state.pop("decoder.embed_tokens.weight")[list(kept.ids)]
    known = trained_rows(rows)
    fresh = int((~known).sum())
    noise = 0.05 * torch.randn(fresh, rows.shape[1])
    noise[:, BIAS_CHANNEL] = 0.0
    rows[~known] = rows[known].mean(dim=0) + noise
    own = model.state_dict()
    state = thinned(state, len(model.encoder.layers), len(model.decoder.layers))
    state = deepened(state, len(model.encoder.layers), own)
    heads = {name: value for name, value in own.items() if name.startswith("ctc_")}
    model.load_state_dict(state | heads | {"decoder.embed_tokens.weight": rows})
    if aids is not None:
        heads = {name: value.float() for name, value in load_file(aids).items()}
        model.load_state_dict(model.state_dict() | heads)
    return fresh
