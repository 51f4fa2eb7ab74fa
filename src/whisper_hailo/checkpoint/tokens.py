"""Tokenizer files and control token ids of a checkpoint.

Ids are read from the checkpoint's tokenizer and generation config, never assumed: in English-only
checkpoints the same numbers mean other things.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from whisper_hailo.checkpoint.config import ENGLISH_N_VOCAB
from whisper_hailo.checkpoint.ctranslate2 import is_ctranslate2, read_settings
from whisper_hailo.core.errors import ModelError, TokenizerError, display_path
from whisper_hailo.core.spec import SpecialTokens
from whisper_hailo.core.strict_json import (
    MismatchError,
    decode,
    read_bounded,
    read_json,
    read_json_object,
)
from whisper_hailo.core.strict_json import read_json_object as read_object
from whisper_hailo.text.tokenizer import TASKS, TOKENIZER_FILE

END_OF_TEXT: Final = "<|endoftext|>"
_TIMESTAMP: Final = re.compile(r"<\|\d+\.\d\d\|>")
_MOST_TOKENS: Final = 1 << 17
"""Twice those of large-v3."""
_LONGEST_TOKEN: Final = 256
"""Twice the longest of OpenAI's."""


def build_from_merges(vocab: Path) -> str:
    """Build a `tokenizer.json` from `vocab.json` and the `merges.txt` in its folder."""
    from tokenizers import models

    merges = vocab.with_name("merges.txt")
    if not merges.is_file():
        raise TokenizerError(
            f"{display_path(vocab.parent)} has vocab.json but no merges.txt beside it"
        )
    try:
        model = models.BPE.from_file(str(vocab), str(merges))
    except Exception as error:  # the library raises bare Exception for broken files
        raise TokenizerError(f"{vocab} and merges.txt are no BPE vocabulary ({error})") from error
    listed = vocab.with_name("added_tokens.json")
    try:
        added = decode(dict[str, int], read_object(listed) if listed.is_file() else {})
    except MismatchError as error:
        raise TokenizerError(f"{display_path(vocab.parent)}/added_tokens.json: {error}") from error
    return _assemble(model, added, listed)


def build_from_list(vocabulary: Path) -> str:
    """Build a `tokenizer.json` from CTranslate2's list of tokens in the order of their ids."""
    from tokenizers import models

    tokens = _read_list(vocabulary)
    n_words = tokens.index(END_OF_TEXT) if END_OF_TEXT in tokens else 0
    longest = max(map(len, tokens[:n_words]), default=0)
    if (
        not n_words
        or len(set(tokens)) < len(tokens)
        or len(tokens) > _MOST_TOKENS
        or longest > _LONGEST_TOKEN
    ):
        raise TokenizerError(
            f"{display_path(vocabulary)} has {len(tokens)} tokens, {len(set(tokens))} different "
            f"ones, words of up to {longest} letters, and {END_OF_TEXT} at {n_words}; expected a "
            "Whisper's vocabulary: give its tokenizer.json with --tokenizer"
        )
    words = {token: index for index, token in enumerate(tokens[:n_words])}
    try:
        model = models.BPE(words, _merges(words))
    except Exception as error:  # the library raises bare Exception
        raise TokenizerError(
            f"{display_path(vocabulary)} is not a BPE vocabulary ({error}); give a tokenizer.json "
            "with --tokenizer"
        ) from error
    control = {
        token: index
        for index, token in enumerate(tokens)
        if index >= n_words and not _TIMESTAMP.fullmatch(token)
    }
    return _assemble(model, control, vocabulary)


BUILDERS: Final[dict[str, Callable[[Path], str]]] = {
    "vocab.json": build_from_merges,
    "vocabulary.json": build_from_list,
    "vocabulary.txt": build_from_list,
}
"""File name to builder of a `tokenizer.json`."""


def _assemble(model: Any, added: dict[str, int], where: Path) -> str:  # noqa: ANN401 - no types
    """Return the text of a byte-level tokenizer with control tokens of given ids."""
    from tokenizers import Tokenizer, decoders, pre_tokenizers

    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([END_OF_TEXT])
    for name, index in sorted(added.items(), key=lambda item: item[1]):
        tokenizer.add_special_tokens([name])
        if tokenizer.token_to_id(name) != index:
            raise TokenizerError(
                f"{display_path(where.parent)}: added token {name} has id {index} in {where.name} "
                f"but would get {tokenizer.token_to_id(name)}; the vocabulary files do not belong "
                "together"
            )
    return str(tokenizer.to_str())


def _read_list(path: Path) -> list[str]:
    """Read the tokens of a JSON list, or of a text with one per line."""
    try:
        if path.suffix == ".json":
            return [*decode(tuple[str, ...], read_json(path, TokenizerError))]
        text = read_bounded(path, TokenizerError).decode("utf-8")
        return text.removesuffix("\n").split("\n")
    except (MismatchError, UnicodeDecodeError) as error:
        raise TokenizerError(f"{display_path(path)}: {error}; fetch the file again") from error


def _merges(words: dict[str, int]) -> list[tuple[str, str]]:
    """Return the pair that each word of several letters is merged from, in the order of the ids.

    A word's own merge is the last of those that make it: all others come before it in the list.
    """
    found = []
    for word, rank in words.items():
        parts = _merge_below(word, rank, words) if len(word) > 1 else [word]
        if len(parts) == 2:
            found.append((parts[0], parts[1]))
    return found


def _merge_below(word: str, rank: int, ranks: dict[str, int]) -> Sequence[str]:
    """Apply all merges that come before a rank to the letters of a word."""
    parts = [*word]
    while len(parts) > 2:
        pairs = [a + b for a, b in pairwise(parts)]
        best = min(range(len(pairs)), key=lambda i: ranks.get(pairs[i], rank))
        if ranks.get(pairs[best], rank) >= rank:
            break
        parts[best : best + 2] = [pairs[best]]
    return parts


logger = logging.getLogger(__name__)

_LANGUAGE = re.compile(r"<\|([a-z]{2,3})\|>")


def write_tokenizer(checkpoint: Path, tokenizer: Path | None, out_file: Path) -> bool:
    """Write one `tokenizer.json` for the model directory.

    Args:
        checkpoint: directory, searched for `tokenizer.json`, then for `vocab.json` with
            `merges.txt`, then for CTranslate2's `vocabulary.json` or `vocabulary.txt`.
        tokenizer: one of these files to use instead.
        out_file: where to write.

    Returns:
        False when the checkpoint has no tokenizer files and none was given.
    """
    source = tokenizer if tokenizer is not None else _find_tokenizer(checkpoint)
    if source is None:
        return False
    if not source.is_file():
        raise TokenizerError(f"{source} is no file; --tokenizer takes a tokenizer.json")
    if source.name in BUILDERS:
        text = BUILDERS[source.name](source)
    else:
        _parse(source)
        text = read_bounded(source, TokenizerError).decode("utf-8")
    out_file.write_text(text, encoding="utf-8")
    return True


def read_special_tokens(checkpoint: Path, tokenizer_file: Path | None) -> SpecialTokens:
    """Read the control token ids of a checkpoint.

    Without a `tokenizer_file` only the configs are read.

    Raises:
        ModelError: no file names start-of-transcript and end-of-transcript, or a value has the
            wrong type.
    """
    if is_ctranslate2(checkpoint):
        config, generation = read_settings(checkpoint)
    else:
        config = read_json_object(checkpoint / "config.json")
        generation = _optional(checkpoint / "generation_config.json")
    given = {key: value for key, value in generation.items() if value is not None}
    try:
        merged = decode(_Entries, {**config, **given})
        own = decode(_Entries, config)
    except MismatchError as error:
        raise ModelError(
            f"{display_path(checkpoint)} has a token entry of the wrong kind in config.json or "
            f"generation_config.json: {error}; fetch these files again"
        ) from error
    names = _token_names(tokenizer_file) if tokenizer_file is not None else {}
    if names:
        _check_fit(names, own, tokenizer_file)
    return _special_tokens(names, merged, checkpoint)


@dataclass(frozen=True, slots=True)
class _Entries:
    """Token entries of a checkpoint's configs, as Transformers names them."""

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
        return _first(self.decoder_start_token_id)

    @property
    def eot(self) -> int | None:
        return _first(self.eos_token_id)

    @property
    def multilingual(self) -> bool:
        if self.is_multilingual is not None:
            return self.is_multilingual
        return bool(self.lang_to_id) or self.vocab_size > ENGLISH_N_VOCAB


def _special_tokens(names: dict[str, int], merged: _Entries, checkpoint: Path) -> SpecialTokens:
    """Return the ids, by the tokenizer's names first and by the merged configs second."""
    sot = names.get("<|startoftranscript|>", merged.sot)
    eot = names.get("<|endoftext|>", merged.eot)
    if sot is None or eot is None:
        raise ModelError(
            f"{display_path(checkpoint)} names no start and end token: config.json and "
            "generation_config.json lack decoder_start_token_id or eos_token_id, and there is no "
            "tokenizer; give one with --tokenizer tokenizer.json"
        )
    named = {task: names[f"<|{task}|>"] for task in TASKS if f"<|{task}|>" in names}
    tasks = {**(merged.task_to_id or {}), **named} if merged.multilingual else {}
    no_timestamps = names.get("<|notimestamps|>", merged.no_timestamps_token_id)
    after_no_timestamps = None if no_timestamps is None else no_timestamps + 1
    return SpecialTokens(
        sot=sot,
        eot=eot,
        transcribe=tasks.get("transcribe"),
        translate=tasks.get("translate"),
        sot_lm=names.get("<|startoflm|>"),
        sot_prev=names.get("<|startofprev|>", merged.prev_sot_token_id),
        # Hugging Face's early tokenizers spell it "nocaptions".
        no_speech=names.get("<|nospeech|>", names.get("<|nocaptions|>")),
        no_timestamps=no_timestamps,
        # Early tokenizer files do not list the timestamps; they always follow <|notimestamps|>.
        timestamp_begin=names.get("<|0.00|>", after_no_timestamps),
        languages=_languages(merged.lang_to_id or names) if merged.multilingual else {},
        suppress=_known_ids(merged.suppress_tokens, merged.vocab_size, "suppress_tokens"),
        begin_suppress=_known_ids(
            merged.begin_suppress_tokens, merged.vocab_size, "begin_suppress_tokens"
        ),
    )


def _find_tokenizer(checkpoint: Path) -> Path | None:
    for name in (TOKENIZER_FILE, *BUILDERS):
        if (checkpoint / name).is_file():
            return checkpoint / name
    return None


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


def _parse(path: Path) -> _TokenizerFile:
    try:
        return decode(_TokenizerFile, read_json_object(path, TokenizerError))
    except MismatchError as error:
        raise TokenizerError(f"{display_path(path)} is no tokenizer.json: {error}") from error


def _optional(path: Path) -> dict[str, Any]:
    """Read a JSON object; an absent file is an empty one."""
    return read_json_object(path) if path.is_file() else {}


def _token_names(tokenizer_file: Path) -> dict[str, int]:
    """Return every token by name; control tokens may be among the words."""
    raw = _parse(tokenizer_file)
    return raw.model.vocab | {token.content: token.id for token in raw.added_tokens}


def _check_fit(names: dict[str, int], config: _Entries, where: Path | None) -> None:
    """Refuse a tokenizer of another checkpoint."""
    largest = max(names.values())
    if largest >= config.vocab_size:
        raise TokenizerError(
            f"{where} has ids up to {largest}, the checkpoint has {config.vocab_size} tokens; "
            "use the tokenizer of the same checkpoint"
        )
    for name, key, expected in (
        ("<|startoftranscript|>", "decoder_start_token_id", config.sot),
        ("<|endoftext|>", "eos_token_id", config.eot),
    ):
        got = names.get(name)
        if expected is not None and got is not None and expected != got:
            raise TokenizerError(
                f"{where} has {name} = {got}, the checkpoint's {key} is {expected}; "
                "use the tokenizer of the same checkpoint"
            )


def _languages(table: dict[str, int]) -> dict[str, int]:
    """Return language code to id, in the order of the ids."""
    found = {m[1]: number for name, number in table.items() if (m := _LANGUAGE.fullmatch(name))}
    return dict(sorted(found.items(), key=lambda item: item[1]))


def _known_ids(listed: tuple[int, ...] | None, n_vocab: int, key: str) -> tuple[int, ...]:
    """Return ids of the vocabulary; -1 in old configs means none."""
    ids = sorted({number for number in listed or () if number >= 0})
    known = tuple(number for number in ids if number < n_vocab)
    if len(known) < len(ids):
        logger.warning("%s names ids beyond the %d tokens; they are left out", key, n_vocab)
    return known


def _first(value: int | tuple[int, ...] | None) -> int | None:
    """Return an id, or the first of a list."""
    if isinstance(value, tuple):
        return value[0] if value else None
    return value
