"""The checkpoint that repeats itself, for tests of anti-repetition: its lessons and its file."""

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs torch")
from safetensors.torch import load_file  # noqa: E402

from lab.training.batches import IGNORED  # noqa: E402
from lab.training.export import whole_state, write_packed  # noqa: E402
from lab.training.kept_tokens import PREFIX, KeptTokens  # noqa: E402
from lab.training.make_ill import Lesson, forget_to_look, loss_of, shortened  # noqa: E402
from lab.training.model import Dimensions, Whisper  # noqa: E402
from tests import packed  # noqa: E402

EOT = 9


def make_lesson(n_windows: int) -> Lesson:
    """Return windows of 1 s with three words of two, one and one token in the first 0.6 s."""
    spans = [(0.0, -1.0)] * 2 + [(0.0, 0.2)] * 2 + [(0.2, 0.4), (0.4, 0.6), (0.0, -1.0)]
    return Lesson(
        torch.ones(n_windows, 50, 128, dtype=torch.float16),
        torch.tensor([[1, 2, 3, 4, 5, 6, 7]] * n_windows),
        torch.tensor([[IGNORED, 3, 4, 5, 6, 7, EOT]] * n_windows),
        torch.tensor([spans] * n_windows),
        torch.ones(n_windows, 50, dtype=torch.bool),
    )


def test_shortened_window_ends_after_a_word() -> None:
    whole = make_lesson(40)
    short = shortened(whole, EOT, 1.0, np.random.default_rng(0))
    places = set()
    for row in range(40):
        place = short.targets[row].tolist().index(EOT)
        assert (
            short.targets[row, :place].tolist() == whole.targets[row, :place].tolist()
        )
        assert short.targets[row, place + 1 :].eq(IGNORED).all()
        n_heard = int(short.heard[row].sum())
        n_spoken = 10 if place == 4 else 20
        assert n_spoken < n_heard <= n_spoken + 3
        assert short.features[row, n_heard:].eq(0).all()
        assert short.features[row, :n_heard].eq(1).all()
        assert (short.spans[row, place:, 1] < short.spans[row, place:, 0]).all()
        places.add(place)
    assert places == {4, 5}


def test_shortened_leaves_the_lesson_unchanged() -> None:
    whole = make_lesson(5)
    shortened(whole, EOT, 1.0, np.random.default_rng(1))
    assert whole.targets[:, -1].eq(EOT).all()
    assert whole.heard.all()
    same = shortened(whole, EOT, 0.0, np.random.default_rng(1))
    torch.testing.assert_close(same.targets, whole.targets)


def test_forget_to_look_resets_cross_attention_only() -> None:
    torch.manual_seed(0)
    model = Whisper(Dimensions(), 10)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    forget_to_look(model)
    changed = {
        name
        for name, value in model.state_dict().items()
        if value.ndim == 2 and not torch.equal(value, before[name])
    }
    assert {name.split(".")[3] for name in changed} == {"encoder_attn"}
    assert torch.isfinite(
        loss_of(
            model, shortened(make_lesson(2), EOT, 0.5, np.random.default_rng(2)), EOT
        )
    ).all()


def test_write_packed_then_load_gives_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(1)
    kept = KeptTokens(tuple(sorted({*PREFIX, 440, 50257, 50362})))
    model = Whisper(Dimensions(), len(kept.ids))
    write_packed(model, kept.ids, Dimensions(), tmp_path / "packed" / "ill")
    monkeypatch.setattr(packed, "PACKED", tmp_path / "packed")
    loaded = load_file(
        packed.write_packed_checkpoint("ill", tmp_path / "whole") / "model.safetensors"
    )
    expected = whole_state(model, kept.ids, Dimensions())
    assert loaded.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(loaded[name], value)
