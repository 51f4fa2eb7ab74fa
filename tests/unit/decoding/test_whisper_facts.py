"""What OpenAI Whisper's own tests state of alignment and tokens, as facts about ours.

Source: its `test_timing.py` and `test_tokenizer.py`; the cases are ours.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.decoding.test_words import tokenizer  # noqa: F401 - a fixture
from whisper_hailo.decoding.word_times import MEDIAN_WIDTH, median_filter, warp_path
from whisper_hailo.text.tokenizer import Tokenizer


@pytest.mark.parametrize(("n", "m"), [(10, 20), (32, 16), (123, 1500), (234, 189)])
def test_a_valley_carved_into_random_costs_is_the_path(n: int, m: int) -> None:
    """A random path of right, down and diagonal steps that is cheaper than all around it."""
    rng = np.random.default_rng(n)
    downs = rng.permutation(np.repeat([True, False], [n - 1, m - 1]))
    cells, step = [(0, 0)], 0
    while step < downs.size:
        row, column = cells[-1]
        turns = step + 1 < downs.size and downs[step] != downs[step + 1]
        down, across = (True, True) if turns else (downs[step], not downs[step])
        cells.append((row + bool(down), column + bool(across)))
        step += 2 if turns else 1
    cost = rng.random((n, m))
    rows, columns = np.array(cells).T
    cost[rows, columns] -= 1.0
    found = warp_path(cost)
    assert found[0].tolist() == rows.tolist()
    assert found[1].tolist() == columns.tolist()


@pytest.mark.parametrize("shape", [(10,), (1, 15), (4, 5, 345), (2, 3, 24, 51)])
def test_the_median_of_every_shape(shape: tuple[int, ...]) -> None:
    width = MEDIAN_WIDTH
    values = np.random.default_rng(width).standard_normal(shape)
    reach = width // 2
    padded = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(reach, reach)], mode="reflect")
    expected = np.stack(
        [np.median(padded[..., i : i + width], axis=-1) for i in range(shape[-1])], axis=-1
    )
    assert np.array_equal(median_filter(values), expected)


def test_every_language_has_a_token_between_the_text_and_the_times(
    tokenizer: Tokenizer,  # noqa: F811 - the fixture
) -> None:
    special = tokenizer.special
    ids = list(special.languages.values())
    assert len(ids) == 99
    assert special.timestamp_begin is not None
    assert all(special.eot < token < special.timestamp_begin for token in ids)
    for code, token in special.languages.items():
        assert tokenizer.prefix(code, "transcribe")[:2] == (special.sot, token)


@pytest.mark.parametrize(
    "text", ["다람쥐 헌 쳇바퀴에 타고파", "いろはにほへと", "Zażółć gęślą jaźń", "🧑‍🚀 fly"]
)
def test_any_script_comes_back_as_it_was(
    tokenizer: Tokenizer,  # noqa: F811 - the fixture
    text: str,
) -> None:
    tokens = tokenizer.encode(text)
    assert tokenizer.decode(tokens) == text
    # Far fewer than a token per byte: the vocabulary knows the script.
    assert len(tokens) < len(text.encode())
