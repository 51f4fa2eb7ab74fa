"""No pair of the backend matrix is missing, and none is of another model."""

import json

from whisper_hailo_lab.experiments.backend_matrix import RESULT, pairs


def test_every_pair_was_run() -> None:
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    assert [(cell["encoder"], cell["decoder"]) for cell in result["cells"]] == list(pairs())
    for cell in result["cells"]:
        too_long = "30 s" in cell["encoder"] and "10 s" in cell["decoder"]
        assert too_long == ("refused" in cell)
        if not too_long:
            assert cell["words"] > 100
            assert min(cell[f"{part}_ms"] for part in ("encoder", "decoder", "total")) > 0
            assert min(cell["load_mib"], cell["warm_mib"], cell["peak_mib"]) > 0
            assert cell["text_of_real_recording"]
