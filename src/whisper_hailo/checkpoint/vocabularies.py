"""`tokenizer.json`, built from the other files that a checkpoint may have in its place.

Older checkpoints have `vocab.json` with `merges.txt`; CTranslate2's directories have only a list of
tokens. The order of its tokens is that of the merges, from which the merges themselves follow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from whisper_hailo.core.errors import TokenizerError
from whisper_hailo.core.names import shown
from whisper_hailo.core.strict_json import MismatchError, decode, read_bounded, read_json
from whisper_hailo.core.strict_json import read_json_object as read_object

END_OF_TEXT: Final = "<|endoftext|>"
_TIMESTAMP: Final = re.compile(r"<\|\d+\.\d\d\|>")
_MOST_TOKENS: Final = 1 << 17
"""Twice those of large-v3."""
_LONGEST_TOKEN: Final = 256
"""Twice the longest of OpenAI's."""


def build_from_merges(vocab: Path) -> str:
    """Return a `tokenizer.json` text of `vocab.json` with `merges.txt` beside it.

    Raises:
        TokenizerError: they are broken, or do not belong together.
    """
    from tokenizers import models

    merges = vocab.with_name("merges.txt")
    if not merges.is_file():
        raise TokenizerError(f"{shown(vocab.parent)} has vocab.json but no merges.txt beside it")
    try:
        model = models.BPE.from_file(str(vocab), str(merges))
    except Exception as error:  # the library raises bare Exception for broken files
        raise TokenizerError(f"{vocab} and merges.txt are no BPE vocabulary ({error})") from error
    listed = vocab.with_name("added_tokens.json")
    try:
        added = decode(dict[str, int], read_object(listed) if listed.is_file() else {})
    except MismatchError as error:
        raise TokenizerError(f"{shown(vocab.parent)}/added_tokens.json: {error}") from error
    return _assemble(model, added, listed)


def build_from_list(vocabulary: Path) -> str:
    """Return a `tokenizer.json` text of CTranslate2's list of tokens in the order of their ids.

    Raises:
        TokenizerError: it is broken, or not of a Whisper.
    """
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
            f"{shown(vocabulary)} has {len(tokens)} tokens, {len(set(tokens))} different ones, "
            f"words of up to {longest} letters, and {END_OF_TEXT} at {n_words}; expected a "
            "Whisper's vocabulary: give its tokenizer.json with --tokenizer"
        )
    words = {token: index for index, token in enumerate(tokens[:n_words])}
    try:
        model = models.BPE(words, _merges(words))
    except Exception as error:  # the library raises bare Exception
        raise TokenizerError(
            f"{shown(vocabulary)} is not a BPE vocabulary ({error}); give a tokenizer.json with "
            "--tokenizer"
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
"""Name of a file, and what makes a `tokenizer.json` of it."""


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
                f"{shown(where.parent)}: added token {name} has id {index} in {where.name} "
                f"but would get {tokenizer.token_to_id(name)}; the vocabulary files do not belong "
                "together"
            )
    return str(tokenizer.to_str())


def _read_list(path: Path) -> list[str]:
    """Return the tokens of a JSON list, or of a text with one in each line."""
    try:
        if path.suffix == ".json":
            return [*decode(tuple[str, ...], read_json(path, TokenizerError))]
        text = read_bounded(path, TokenizerError).decode("utf-8")
        return text.removesuffix("\n").split("\n")
    except (MismatchError, UnicodeDecodeError) as error:
        raise TokenizerError(f"{shown(path)}: {error}; fetch the file again") from error


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
