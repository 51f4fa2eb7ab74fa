"""Tokenizer files and control token ids of a checkpoint.

Ids are read from the checkpoint's tokenizer and generation config, never assumed: in English-only
checkpoints the same numbers mean other things.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

from whisper_hailo.core.errors import ModelError, TokenizerError
from whisper_hailo.core.files import read_json_object
from whisper_hailo.core.spec import SpecialTokens
from whisper_hailo.tokenizer import TOKENIZER_FILE

ENGLISH_N_VOCAB = 51_864
"""Vocabulary size of `.en` checkpoints; used only where no config says if one is multilingual."""

logger = logging.getLogger(__name__)

_LANGUAGE = re.compile(r"<\|([a-z]{2,3})\|>")


def write_tokenizer(checkpoint: Path, tokenizer: Path | None, out_file: Path) -> bool:
    """Write one `tokenizer.json` for the model directory.

    Args:
        checkpoint: checkpoint directory, searched for `tokenizer.json`, then for `vocab.json` with
            `merges.txt` beside it.
        tokenizer: a `tokenizer.json` or `vocab.json` to use instead.
        out_file: where to write.

    Returns:
        False when the checkpoint has no tokenizer files and none was given.

    Raises:
        TokenizerError: the files are broken or incomplete.
    """
    source = tokenizer if tokenizer is not None else _find_tokenizer(checkpoint)
    if source is None:
        return False
    if not source.is_file():
        raise TokenizerError(f"{source} is no file; --tokenizer takes a tokenizer.json")
    if source.name == "vocab.json":
        text = _from_vocab(source)
    else:
        _parse(source)
        text = source.read_text(encoding="utf-8")
    out_file.write_text(text, encoding="utf-8")
    return True


def read_special_tokens(checkpoint: Path, tokenizer_file: Path | None) -> SpecialTokens:
    """Collect the control token ids of a checkpoint.

    Args:
        checkpoint: checkpoint directory with `config.json` and, mostly, `generation_config.json`.
        tokenizer_file: the model's `tokenizer.json`; without it only the configs are read.

    Raises:
        ModelError: neither file names start-of-transcript and end-of-transcript, or a value is not
            of the kind it should be.
        TokenizerError: the tokenizer contradicts the checkpoint's configs.
    """
    config = _optional(checkpoint / "config.json")
    generation = _optional(checkpoint / "generation_config.json")
    try:
        names = _token_names(tokenizer_file) if tokenizer_file is not None else {}
        if names:
            _check_fit(names, config, tokenizer_file)
        given = {k: v for k, v in generation.items() if v is not None}
        return _special_tokens(names, {**config, **given}, checkpoint)
    except (TypeError, ValueError, KeyError, AttributeError, IndexError) as error:
        raise ModelError(
            f"{checkpoint} has a token entry of the wrong kind in its tokenizer or its configs "
            f"({error}); fetch these files again"
        ) from error


def _special_tokens(
    names: dict[str, int], merged: dict[str, Any], checkpoint: Path
) -> SpecialTokens:
    """The ids, by the tokenizer's names first and by the merged configs second."""
    sot = names.get("<|startoftranscript|>", merged.get("decoder_start_token_id"))
    eot = names.get("<|endoftext|>", _first(merged.get("eos_token_id")))
    if sot is None or eot is None:
        raise ModelError(
            f"{checkpoint} names no start and end token: config.json and generation_config.json "
            "lack decoder_start_token_id or eos_token_id, and there is no tokenizer; "
            "give one with --tokenizer tokenizer.json"
        )
    tasks: dict[str, int] = merged.get("task_to_id") or {}
    multilingual = _is_multilingual(merged)
    no_timestamps = names.get("<|notimestamps|>", merged.get("no_timestamps_token_id"))
    after_no_timestamps = None if no_timestamps is None else no_timestamps + 1
    return SpecialTokens(
        sot=sot,
        eot=eot,
        transcribe=names.get("<|transcribe|>", tasks.get("transcribe")) if multilingual else None,
        translate=names.get("<|translate|>", tasks.get("translate")) if multilingual else None,
        sot_lm=names.get("<|startoflm|>"),
        sot_prev=names.get("<|startofprev|>", merged.get("prev_sot_token_id")),
        # Hugging Face's early tokenizers spell it "nocaptions".
        no_speech=names.get("<|nospeech|>", names.get("<|nocaptions|>")),
        no_timestamps=no_timestamps,
        # Early tokenizer files do not list the timestamps; they always follow <|notimestamps|>.
        timestamp_begin=names.get("<|0.00|>", after_no_timestamps),
        languages=_languages(names, merged) if multilingual else {},
        suppress=_id_list(merged, "suppress_tokens"),
        begin_suppress=_id_list(merged, "begin_suppress_tokens"),
    )


def _find_tokenizer(checkpoint: Path) -> Path | None:
    for name in (TOKENIZER_FILE, "vocab.json"):
        if (checkpoint / name).is_file():
            return checkpoint / name
    return None


def _parse(path: Path) -> dict[str, Any]:
    """Parse a `tokenizer.json`, or say what is wrong with it."""
    raw = read_json_object(path, TokenizerError)
    model = raw.get("model")
    if not isinstance(model, dict) or not isinstance(model.get("vocab"), dict):
        raise TokenizerError(f"{path} is no tokenizer.json: it has no model with a vocabulary")
    return raw


def _optional(path: Path) -> dict[str, Any]:
    """A JSON object from a file; an absent file is an empty object."""
    return read_json_object(path) if path.is_file() else {}


def _from_vocab(vocab: Path) -> str:
    """Build a `tokenizer.json` text from the older files `vocab.json` and `merges.txt`."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    merges = vocab.with_name("merges.txt")
    if not merges.is_file():
        raise TokenizerError(f"{vocab.parent} has vocab.json but no merges.txt beside it")
    try:
        tokenizer = Tokenizer(models.BPE.from_file(str(vocab), str(merges)))
    except Exception as error:  # the library raises bare Exception for broken files
        raise TokenizerError(f"{vocab} and merges.txt are no BPE vocabulary ({error})") from error
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    added = _optional(vocab.with_name("added_tokens.json"))
    ordered = sorted(((str(name), int(index)) for name, index in added.items()), key=lambda x: x[1])
    tokenizer.add_special_tokens(["<|endoftext|>"])
    for name, index in ordered:
        tokenizer.add_special_tokens([AddedToken(name, normalized=False, special=True)])
        if tokenizer.token_to_id(name) != index:
            raise TokenizerError(
                f"{vocab.parent}: added token {name} has id {index} in added_tokens.json but would "
                f"get {tokenizer.token_to_id(name)}; the vocabulary files do not belong together"
            )
    return str(tokenizer.to_str())


def _token_names(tokenizer_file: Path | None) -> dict[str, int]:
    """Every token that is written `<|...|>`, by name."""
    if tokenizer_file is None:
        return {}
    raw = _parse(tokenizer_file)
    names = {k: int(v) for k, v in raw["model"]["vocab"].items() if k.startswith("<|")}
    for token in raw.get("added_tokens", []):
        names[str(token["content"])] = int(token["id"])
    return names


def _check_fit(names: dict[str, int], config: dict[str, Any], where: Path | None) -> None:
    """Refuse a tokenizer of another checkpoint before it turns text into nonsense."""
    n_vocab = config.get("vocab_size")
    largest = max(names.values())
    if isinstance(n_vocab, int) and largest >= n_vocab:
        raise TokenizerError(
            f"{where} has ids up to {largest}, the checkpoint has {n_vocab} tokens; "
            "use the tokenizer of the same checkpoint"
        )
    for name, key in (
        ("<|startoftranscript|>", "decoder_start_token_id"),
        ("<|endoftext|>", "eos_token_id"),
    ):
        expected, got = _first(config.get(key)), names.get(name)
        if expected is not None and got is not None and expected != got:
            raise TokenizerError(
                f"{where} has {name} = {got}, the checkpoint's {key} is {expected}; "
                "use the tokenizer of the same checkpoint"
            )


def _is_multilingual(merged: dict[str, Any]) -> bool:
    flag = merged.get("is_multilingual")
    if isinstance(flag, bool):
        return flag
    return bool(merged.get("lang_to_id")) or merged.get("vocab_size", 0) > ENGLISH_N_VOCAB


def _languages(names: dict[str, int], merged: dict[str, Any]) -> dict[str, int]:
    """Language code to id, in the order of the ids."""
    table: dict[str, int] = merged.get("lang_to_id") or names
    found = {m[1]: int(i) for name, i in table.items() if (m := _LANGUAGE.fullmatch(name))}
    return dict(sorted(found.items(), key=lambda item: item[1]))


def _id_list(merged: dict[str, Any], key: str) -> tuple[int, ...]:
    """A list of ids; -1 in old configs means nothing, and trimmed vocabularies lack some."""
    ids = sorted({int(i) for i in merged.get(key) or () if int(i) >= 0})
    n_vocab = int(merged.get("vocab_size", ids[-1] + 1 if ids else 0))
    known = tuple(i for i in ids if i < n_vocab)
    if len(known) < len(ids):
        logger.warning("%s names ids beyond the %d tokens; they are left out", key, n_vocab)
    return known


def _first(value: Any) -> int | None:  # noqa: ANN401 - an id or a list of ids in JSON
    if isinstance(value, list):
        return int(value[0]) if value else None
    return None if value is None else int(value)
