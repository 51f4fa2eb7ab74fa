"""Tokenizer files and control token ids of a checkpoint.

Ids are read from the checkpoint's tokenizer and generation config, never assumed: in English-only
checkpoints the same numbers mean other things.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Final

from whisper_hailo.checkpoint.checkpoint import read_configs
from whisper_hailo.checkpoint.config import ENGLISH_N_VOCAB
from whisper_hailo.checkpoint.openai_vocabulary import suppressed_tokens
from whisper_hailo.checkpoint.single_file import is_single_file, make_tokenizer
from whisper_hailo.core.errors import ModelError, TokenizerError, display_path
from whisper_hailo.core.spec import SpecialTokens
from whisper_hailo.core.strict_json import (
    MismatchError,
    decode,
    read_bounded,
    read_json_object,
)
from whisper_hailo.text.tokenizer import TASKS, TOKENIZER_FILE

VOCABULARY_FILE: Final = "vocab.json"
END_OF_TEXT: Final = "<|endoftext|>"

logger = logging.getLogger(__name__)

_LANGUAGE = re.compile(r"<\|([a-z]{2,3})\|>")


def write_tokenizer(checkpoint: Path, tokenizer: Path | None, out_file: Path) -> bool:
    """Write one `tokenizer.json` for the model directory.

    Args:
        checkpoint: directory, searched for `tokenizer.json`, then for `vocab.json` with
            `merges.txt`; or a file, whose tokens are known.
        tokenizer: one of these files to use instead.
        out_file: where to write.

    Returns:
        False when the checkpoint has no tokenizer files and none was given.
    """
    source = tokenizer or _find_tokenizer(checkpoint)
    if source is None and is_single_file(checkpoint):
        out_file.write_text(make_tokenizer(checkpoint), encoding="utf-8")
        return True
    if source is None:
        return False
    if not source.is_file():
        raise TokenizerError(
            f"{source} is not a file; --tokenizer takes a tokenizer.json"
        )
    if source.name == VOCABULARY_FILE:
        text = _build_from_merges(source)
    else:
        _token_names(source)  # refuses what is no tokenizer
        text = read_bounded(source, TokenizerError).decode("utf-8")
    out_file.write_text(text, encoding="utf-8")
    return True


def _find_tokenizer(checkpoint: Path) -> Path | None:
    for name in (TOKENIZER_FILE, VOCABULARY_FILE):
        path = checkpoint / name
        if path.is_file():
            return path
    return None


def _build_from_merges(vocab: Path) -> str:
    """Build a byte-level `tokenizer.json` from `vocab.json` and the files beside it.

    `merges.txt` belongs to it; control tokens with other ids are in `added_tokens.json`, if any.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    folder = display_path(vocab.parent)
    merges = vocab.with_name("merges.txt")
    if not merges.is_file():
        raise TokenizerError(f"{folder} has vocab.json but no merges.txt beside it")
    try:
        tokenizer = Tokenizer(models.BPE.from_file(str(vocab), str(merges)))
    except Exception as error:  # the library raises bare Exception for broken files
        raise TokenizerError(
            f"{vocab} and merges.txt are not a BPE vocabulary ({error})"
        ) from error
    added = _read_added_tokens(vocab.with_name("added_tokens.json"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([END_OF_TEXT])
    for name, index in sorted(added.items(), key=lambda item: item[1]):
        tokenizer.add_special_tokens([name])
        actual_index = tokenizer.token_to_id(name)  # the next free one
        if actual_index != index:
            raise TokenizerError(
                f"{folder}: added token {name} has id {index} in added_tokens.json but would get "
                f"{actual_index}; the vocabulary files do not belong together"
            )
    return str(tokenizer.to_str())


def _read_added_tokens(path: Path) -> dict[str, int]:
    if not path.is_file():
        return {}
    try:
        return decode(dict[str, int], read_json_object(path, TokenizerError))
    except MismatchError as error:
        raise TokenizerError(
            f"{display_path(path.parent)}/added_tokens.json: {error}"
        ) from error


@dataclass(frozen=True, slots=True)
class _Vocab:
    vocab: dict[str, int]


@dataclass(frozen=True, slots=True)
class _Added:
    content: str
    id: int


@dataclass(frozen=True, slots=True)
class _TokenizerFile:
    """The used entries of a `tokenizer.json`."""

    model: _Vocab
    added_tokens: tuple[_Added, ...] = ()


def _token_names(path: Path) -> dict[str, int]:
    """Return every token of a `tokenizer.json` by name; control tokens may be among the words."""
    try:
        raw = decode(_TokenizerFile, read_json_object(path, TokenizerError))
    except MismatchError as error:
        raise TokenizerError(
            f"{display_path(path)} is not a tokenizer.json: {error}"
        ) from error
    return raw.model.vocab | {token.content: token.id for token in raw.added_tokens}


@dataclass(frozen=True, slots=True)
class _Entries:
    """Token entries of a checkpoint's configs, under Transformers' names."""

    vocab_size: int
    decoder_start_token_id: int | tuple[int, ...] | None = None
    eos_token_id: int | tuple[int, ...] | None = None
    prev_sot_token_id: int | None = None
    no_timestamps_token_id: int | None = None
    is_multilingual: bool | None = None
    task_to_id: dict[str, int] | None = None
    lang_to_id: dict[str, int] | None = None
    suppress_tokens: tuple[int, ...] | None = None
    begin_suppress_tokens: tuple[int, ...] | None = None

    @property
    def sot(self) -> int | None:
        """Id of start-of-transcript."""
        return _first_id(self.decoder_start_token_id)

    @property
    def eot(self) -> int | None:
        """Id of end-of-transcript."""
        return _first_id(self.eos_token_id)

    @property
    def is_for_many_languages(self) -> bool:
        """Whether the checkpoint is multilingual, by the clearest entry that there is."""
        if self.is_multilingual is not None:
            return self.is_multilingual
        return bool(self.lang_to_id) or self.vocab_size > ENGLISH_N_VOCAB


def read_special_tokens(checkpoint: Path, tokenizer_file: Path | None) -> SpecialTokens:
    """Read the control token ids of a checkpoint: the tokenizer's first, then the configs'.

    Raises:
        ModelError: no file names start-of-transcript and end-of-transcript, or an entry has the
            wrong type.
    """
    entries, config_entries = _read_entries(checkpoint, tokenizer_file)
    names = _token_names(tokenizer_file) if tokenizer_file is not None else {}
    if names:
        _check_fit(names, config_entries, tokenizer_file)
    sot = names.get("<|startoftranscript|>", entries.sot)
    eot = names.get(END_OF_TEXT, entries.eot)
    if sot is None or eot is None:
        raise ModelError(
            f"{display_path(checkpoint)} does not name the start and end tokens: config.json and "
            "generation_config.json lack decoder_start_token_id or eos_token_id, and there is no "
            "tokenizer; give one with --tokenizer tokenizer.json"
        )
    tasks: dict[str, int] = {}
    languages: dict[str, int] = {}
    # In others the same tokens are there, and mean nothing.
    if entries.is_for_many_languages:
        tasks = _task_ids(entries, names)
        languages = _language_ids(entries, names)
    no_timestamps = names.get("<|notimestamps|>", entries.no_timestamps_token_id)
    # Early tokenizer files do not list the timestamps, which always follow <|notimestamps|>.
    after_no_timestamps = None if no_timestamps is None else no_timestamps + 1
    return SpecialTokens(
        sot=sot,
        eot=eot,
        transcribe=tasks.get("transcribe"),
        translate=tasks.get("translate"),
        sot_lm=names.get("<|startoflm|>"),
        sot_prev=names.get("<|startofprev|>", entries.prev_sot_token_id),
        # Hugging Face's early tokenizers spell it "nocaptions".
        no_speech=names.get("<|nospeech|>", names.get("<|nocaptions|>")),
        no_timestamps=no_timestamps,
        timestamp_begin=names.get("<|0.00|>", after_no_timestamps),
        languages=languages,
        suppress=_known_ids(
            entries.suppress_tokens, entries.vocab_size, "suppress_tokens"
        ),
        begin_suppress=_known_ids(
            entries.begin_suppress_tokens, entries.vocab_size, "begin_suppress_tokens"
        ),
    )


def _read_entries(
    checkpoint: Path, tokenizer_file: Path | None
) -> tuple[_Entries, _Entries]:
    """Return the token entries of both configs together, and of config.json alone.

    An entry of generation_config.json goes before the same one of config.json.

    Raises:
        ModelError: an entry has the wrong type.
    """
    config, generation = read_configs(checkpoint)
    if tokenizer_file is not None and is_single_file(checkpoint):
        generation |= suppressed_tokens(tokenizer_file)
    generation = {key: value for key, value in generation.items() if value is not None}
    try:
        return decode(_Entries, {**config, **generation}), decode(_Entries, config)
    except MismatchError as error:
        raise ModelError(
            f"{display_path(checkpoint)} has a token entry of the wrong kind in config.json or "
            f"generation_config.json: {error}; fetch these files again"
        ) from error


def _task_ids(entries: _Entries, names: dict[str, int]) -> dict[str, int]:
    """Return ids of the tasks by their names."""
    ids = dict(entries.task_to_id or {})
    for task in TASKS:
        token = f"<|{task}|>"
        if token in names:
            ids[task] = names[token]
    return ids


def _language_ids(entries: _Entries, names: dict[str, int]) -> dict[str, int]:
    """Return ids of the languages by their codes, in ascending order of the ids."""
    candidates = entries.lang_to_id or names
    ids = {}
    for name, index in sorted(candidates.items(), key=itemgetter(1)):
        match = _LANGUAGE.fullmatch(name)
        if match is not None:
            ids[match[1]] = index
    return ids


def _check_fit(names: dict[str, int], config: _Entries, tokenizer: Path | None) -> None:
    """Refuse a tokenizer of another checkpoint."""
    largest = max(names.values())
    if largest >= config.vocab_size:
        raise TokenizerError(
            f"{tokenizer} has ids up to {largest}, the checkpoint has {config.vocab_size} tokens; "
            "use the tokenizer of the same checkpoint"
        )
    for name, key, expected in (
        ("<|startoftranscript|>", "decoder_start_token_id", config.sot),
        (END_OF_TEXT, "eos_token_id", config.eot),
    ):
        index = names.get(name, expected)
        if expected is not None and expected != index:
            raise TokenizerError(
                f"{tokenizer} has {name} = {index}, the checkpoint's {key} is {expected}; "
                "use the tokenizer of the same checkpoint"
            )


def _known_ids(
    listed: tuple[int, ...] | None, n_vocab: int, key: str
) -> tuple[int, ...]:
    """Return ids of the vocabulary; -1 in old configs means none."""
    ids = sorted({index for index in listed or () if index >= 0})
    in_vocabulary = tuple(index for index in ids if index < n_vocab)
    if len(in_vocabulary) < len(ids):
        logger.warning(
            "%s names ids beyond the %d tokens; they are left out", key, n_vocab
        )
    return in_vocabulary


def _first_id(value: int | tuple[int, ...] | None) -> int | None:
    """Return an id, or the first of a list."""
    if isinstance(value, tuple):
        return value[0] if value else None
    return value
