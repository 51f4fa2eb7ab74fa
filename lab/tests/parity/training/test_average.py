"""The mean of states: of every array, of one model only."""

import pytest

torch = pytest.importorskip("torch")
from lab.training.average import mean  # noqa: E402


def test_mean_is_taken_of_every_array() -> None:
    first = torch.tensor([1.0, 4.0])
    second = torch.tensor([3.0, 0.0])
    found = mean([{"a": first, "b": second}, {"a": second, "b": second}])
    torch.testing.assert_close(found, {"a": torch.tensor([2.0, 2.0]), "b": second})


def test_different_models_have_no_mean() -> None:
    with pytest.raises(ValueError, match="different models"):
        mean([{"a": torch.zeros(1)}, {"b": torch.zeros(1)}])
