"""The mean of the states of one model."""

import pytest

torch = pytest.importorskip("torch")
from lab.training.average import mean  # noqa: E402


def test_mean_averages_every_array() -> None:
    first = torch.tensor([1.0, 4.0])
    second = torch.tensor([3.0, 0.0])
    average = mean([{"a": first, "b": second}, {"a": second, "b": second}])
    torch.testing.assert_close(average, {"a": torch.tensor([2.0, 2.0]), "b": second})


def test_mean_of_different_models_raises() -> None:
    with pytest.raises(ValueError, match="models"):
        mean([{"a": torch.zeros(1)}, {"b": torch.zeros(1)}])
