"""Outputs of a step for decoders whose graphs give logits alone."""

from __future__ import annotations

import numpy as np

from whisper_hailo.backends.step_output import logsumexp, output_of_logits


def test_logsumexp_of_large_logits() -> None:
    logits = np.array([[[1000.0, 1000.0], [-1000.0, -np.inf]]], np.float32)
    np.testing.assert_allclose(
        logsumexp(logits), [[1000 + np.log(2), -1000]], rtol=1e-6
    )


def test_output_of_logits_has_sums_and_no_alignment() -> None:
    logits = np.random.default_rng(0).standard_normal((2, 3, 5)).astype(np.float32)
    output = output_of_logits(logits)
    assert output.logits is logits
    assert output.logsumexp.shape == (2, 3)
    assert output.logsumexp.dtype == np.float32
    expected = np.log(np.exp(logits.astype(np.float64)).sum(-1))
    np.testing.assert_allclose(output.logsumexp, expected, rtol=1e-5)
    assert output.alignment is None
