"""Windows of utterances: times on the grid, places, and batches of every task."""

import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tokenizers import Tokenizer  # noqa: E402

from lab.training import whisper_vocabulary as ids  # noqa: E402
from lab.training.batches import IGNORED, Batcher, Demands  # noqa: E402
from lab.training.corpus import Corpus, Sentence, Utterance, sentence_entries  # noqa: E402
from lab.training.kept_tokens import KeptTokens  # noqa: E402
from lab.training.phones import Phones  # noqa: E402

TOKENIZER = Path(__file__).parents[4] / "src/whisper_hailo/assets/micro/tokenizer.json"
KEPT = KeptTokens(tuple(range(ids.N_VOCAB)))
PHONES = Phones(
    {"hello": [1, 2], "de:danke": [3], "de:auf": [4]}, ["a", "b", "c", "d", "e"]
)


@pytest.fixture
def utterances(tmp_path: Path) -> list[Utterance]:
    german = [
        {"text": "Danke.", "translation": "Thank you.", "start_s": 0.03, "end_s": 0.9},
        {"text": "Auf.", "translation": "Open.", "start_s": 1.4, "end_s": 1.97},
    ]
    entries = [
        {"text": "Hello.", "offset": 0, "n_samples": 16_000},
        {
            "version": 2,
            "language": "de",
            "text": "Danke. Auf.",
            "sentences": german,
            "offset": 16_000,
            "n_samples": 32_000,
        },
        {"text": "Unheard.", "offset": 0, "n_samples": 16_000},
    ]
    lines = "".join(json.dumps(entry) + "\n" for entry in entries)
    (tmp_path / "00000.jsonl").write_text(lines, encoding="utf-8")
    np.full(48_000, 8000, np.int16).tofile(tmp_path / "00000.pcm")
    corpus = Corpus([tmp_path], Tokenizer.from_file(str(TOKENIZER)), KEPT, PHONES)
    assert corpus.refresh() == 2
    assert corpus.n_skipped == 1
    return corpus.utterances


def test_corpus_reads_both_manifest_versions(utterances: list[Utterance]) -> None:
    assert [other.group for other in utterances] == ["en", "de translated"]
    assert utterances[0].sentences[0].end_s == pytest.approx(0.97)
    assert [sentence.phones for sentence in utterances[1].sentences] == [[3], [4]]
    with pytest.raises(ValueError, match="version 3"):
        sentence_entries({"version": 3})


def draw_rows(
    utterances: list[Utterance], demands: Demands, full: bool
) -> list[list[int]]:
    batcher = Batcher(utterances, KEPT, np.random.default_rng(3), demands)
    batches = [
        batcher.long(10.0, 16) if full else batcher.short(75.0, 16) for _ in range(4)
    ]
    sentence_rows = []
    for batch in batches:
        assert batch.tokens.shape == batch.targets.shape
        learnt = batch.targets != IGNORED
        # A target is the next token, except at the end of a text.
        following = torch.roll(batch.tokens, -1, 1)
        differs = (batch.targets != following) & learnt
        assert set(batch.targets[differs].tolist()) <= {ids.EOT, ids.NO_SPEECH}
        sentence_rows += batch.tokens.tolist()
    return sentence_rows


def test_batcher_short_windows_have_no_times(
    utterances: list[Utterance],
) -> None:
    sentence_rows = draw_rows(utterances, Demands(), full=False)
    assert {row[2] for row in sentence_rows} == {ids.TRANSCRIBE}
    assert {row[3] for row in sentence_rows} == {ids.NO_TIMESTAMPS}


def test_batcher_long_windows_have_all_tasks(utterances: list[Utterance]) -> None:
    sentence_rows = draw_rows(
        utterances, Demands(timestamps=0.5, translate=0.5, cut=0.2), full=True
    )
    german = ids.FIRST_LANGUAGE + ids.LANGUAGES.index("de")
    assert {row[1] for row in sentence_rows} == {ids.FIRST_LANGUAGE, german}
    assert {row[2] for row in sentence_rows} == {ids.TRANSCRIBE, ids.TRANSLATE}
    assert not [
        row for row in sentence_rows if row[2] == ids.TRANSLATE and row[1] != german
    ]
    timed = [row for row in sentence_rows if row[3] >= ids.FIRST_TIMESTAMP]
    assert 0 < len(timed) < len(sentence_rows)
    for row in timed:
        times = [token for token in row if token >= ids.FIRST_TIMESTAMP]
        assert times == sorted(times)


def test_batcher_times_are_relative_to_the_window(utterances: list[Utterance]) -> None:
    batcher = Batcher(
        utterances, KEPT, np.random.default_rng(1), Demands(timestamps=1.0)
    )
    sentence_rows = batcher.short(75.0, 16, first_s=20.0).tokens.tolist()
    spoken = [row[3] for row in sentence_rows if row[4] < ids.EOT]
    assert min(spoken) >= ids.FIRST_TIMESTAMP + 1000


def test_batcher_times_match_the_audio(utterances: list[Utterance]) -> None:
    batcher = Batcher(
        utterances[:1], KEPT, np.random.default_rng(5), Demands(timestamps=1.0)
    )
    for _ in range(6):
        batch = batcher.long(10.0, 1)
        times = [t for t in batch.tokens[0].tolist() if t >= ids.FIRST_TIMESTAMP]
        if len(times) != 2 or not batch.phones[0]:
            continue
        start_s = (times[0] - ids.FIRST_TIMESTAMP) * 0.02 - 0.03
        inside = batch.audio[0, int((start_s + 0.05) * 16_000) :][:12_000].abs().mean()
        assert float(inside) > 0.005


def test_batcher_text_has_the_spoken_language(
    utterances: list[Utterance],
) -> None:
    batcher = Batcher(
        utterances, KEPT, np.random.default_rng(2), Demands(translate=1.0)
    )
    spoken = {
        tuple(sentence.rows) for other in utterances for sentence in other.sentences
    }
    batch = batcher.short(75.0, 16)
    assert any(batch.said)
    for said, phones in zip(batch.said, batch.phones, strict=True):
        assert bool(said) == bool(phones)
        left = list(said)
        while left:
            sentence_rows = next(
                sentence_rows
                for sentence_rows in spoken
                if tuple(left[: len(sentence_rows)]) == sentence_rows
            )
            left = left[len(sentence_rows) :]


def test_batcher_previous_text_is_no_target(
    utterances: list[Utterance],
) -> None:
    batcher = Batcher(utterances, KEPT, np.random.default_rng(4), Demands(previous=1.0))
    batch = batcher.short(75.0, 16)
    spoken = [number for number, said in enumerate(batch.said) if said]
    assert spoken
    for number in spoken:
        tokens = batch.tokens[number].tolist()
        assert tokens[0] == ids.START_OF_PREV
        begins = tokens.index(ids.SOT)
        assert begins > 1
        assert set(batch.targets[number, :begins].tolist()) == {IGNORED}
        assert set(batch.spans[number, :begins, 1].tolist()) == {-1.0}


def test_batcher_wrong_input_keeps_its_target(
    utterances: list[Utterance],
) -> None:
    def draw_windows(mistaken: float) -> tuple[list[list[int]], list[list[int]]]:
        demands = Demands(timestamps=0.5, mistaken=mistaken)
        rng = np.random.default_rng(5)
        windows = [
            Batcher(utterances, KEPT, rng, demands).long(10.0, 1) for _ in range(12)
        ]
        return [w.tokens[0].tolist() for w in windows], [
            w.targets[0].tolist() for w in windows
        ]

    tokens, targets = draw_windows(0.999)
    input_tokens = [token for row in tokens for token in row if token < ids.EOT]
    target_tokens = [token for row in targets for token in row if 0 <= token < ids.EOT]
    assert len(input_tokens) == len(target_tokens) > 12
    assert set(target_tokens) <= {
        token
        for other in utterances
        for s in other.sentences
        for token in sentence_rows(s)
    }
    assert (
        sum(a == b for a, b in zip(input_tokens, target_tokens, strict=True))
        < len(input_tokens) / 4
    )
    assert all(row[0] == ids.SOT for row in tokens)  # only text tokens are replaced


def sentence_rows(sentence: Sentence) -> list[int]:
    return [*sentence.rows, *(sentence.translation or [])]
