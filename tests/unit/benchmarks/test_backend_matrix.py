"""The table of the backend matrix is what its measurements say, and no pair is missing."""

import json

from benchmarks import backend_matrix as matrix


def test_the_committed_table_is_what_the_result_says() -> None:
    result = json.loads(matrix.RESULT.read_text(encoding="utf-8"))
    page = matrix.PAGE.read_text(encoding="utf-8")
    assert matrix.filled(page, result) == page, (
        "docs/benchmarks.md is stale: python benchmarks/backend_matrix.py table --write"
    )


def test_every_pair_was_run() -> None:
    result = json.loads(matrix.RESULT.read_text(encoding="utf-8"))
    assert [(cell["encoder"], cell["decoder"]) for cell in result["cells"]] == list(matrix.pairs())
    for cell in result["cells"]:
        too_long = "30 s" in cell["encoder"] and "10 s" in cell["decoder"]
        assert too_long == ("refused" in cell)
