"""No pair of the backend matrix is missing, and none is of another model."""

import json
from pathlib import Path

from benchmarks import backend_matrix as matrix
from benchmarks.tables import BACKENDS


def test_every_pair_was_run() -> None:
    result = json.loads(BACKENDS.read_text(encoding="utf-8"))
    assert [(cell["encoder"], cell["decoder"]) for cell in result["cells"]] == list(matrix.pairs())
    for cell in result["cells"]:
        too_long = "30 s" in cell["encoder"] and "10 s" in cell["decoder"]
        assert too_long == ("refused" in cell)
        if not too_long:
            assert cell["words"] > 100
            assert min(cell[f"{part}_ms"] for part in ("encoder", "decoder", "total")) > 0
            assert min(cell["load_mib"], cell["warm_mib"], cell["peak_mib"]) > 0
            assert cell["text_of_real_recording"]


def test_one_models_cells_are_never_mixed_with_anothers(tmp_path: Path) -> None:
    kept = tmp_path / "cells.jsonl"
    assert matrix.measured(kept, "a") == {}
    rows = [{"weights": weights, "encoder": "e", "decoder": "d", "wer": 0.1} for weights in "ab"]
    kept.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert matrix.measured(kept, "b") == {("e", "d"): {"encoder": "e", "decoder": "d", "wer": 0.1}}
    assert matrix.measured(kept, "c") == {}
