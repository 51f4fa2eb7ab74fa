"""Tables of `docs/reference/emulation.md`: what 8 and 16 bits cost the bundled model."""

from __future__ import annotations

from typing import Any, Final

from whisper_hailo_lab.repository import ROOT
from whisper_hailo_lab.runs.results import remark_weights
from whisper_hailo_lab.tables import Table, fill_template, format_difference, make_table

RESULT: Final = ROOT / "docs" / "img" / "emulated-quantisation.json"

Result = dict[str, Any]

_PARTS: Final = ("encoder", "decoder")
_PLANS: Final = {
    "float32": "float32",
    "all8": "all 8 bits",
    "adds16": "+ adds at 16",
    "norms16": "+ norms at 16",
    "script": "model script",
}


def make_tables(result: Result, weights: str) -> dict[str, str]:
    """Return the tables of plans and of kinds of layers."""
    other = remark_weights(
        (result[part].get("weights", "") for part in _PARTS), weights
    )
    origin = f"`micro`, {result['machine']}{other}.\n\n"
    return {
        "emulation-plans": origin + plan_table(result).markdown(),
        "emulation-kinds": origin + kind_table(result).markdown(),
    }


def plan_table(result: Result) -> Table:
    """Return noise and word errors, one line per plan and part."""
    rows = [row | {"part": part} for part in _PARTS for row in result[part]["plans"]]
    rows.append(result["both"] | {"part": "both"})
    return make_table(
        rows,
        (
            ("part", "{part}"),
            ("plan", lambda row: _PLANS[row["plan"]]),
            ("SNR dB", lambda row: f"{row['snr_db']:.1f}" if "snr_db" in row else ""),
            ("cosine", lambda row: f"{row['cosine']:.4f}" if "cosine" in row else ""),
            ("WER", _word_errors),
            ("less that of float32", _more_than_float32),
        ),
    )


def _word_errors(row: Result) -> str:
    low, high = row["interval"]
    counts = fill_template(
        "{substitutions} S {deletions} D {insertions} I of {words}", row
    )
    return (
        f"{100 * row['wer']:.1f} % ({100 * low:.1f}-{100 * high:.1f}; {counts}, "
        f"{row['clips']} clips)"
    )


def _more_than_float32(row: Result) -> str:
    """Return the difference from float32 on the same clips, with its paired interval."""
    if row["plan"] == "float32" or "more" not in row:
        return ""
    return format_difference(row["more"], row["more_interval"])


def kind_table(result: Result) -> Table:
    """Return the noise of single kinds of layers, the cheapest first."""
    kinds = result["encoder"]["kinds"]
    names = sorted(kinds, key=lambda name: -kinds[name])
    rows = [
        {
            "kind": "nothing" if name == "none" else name,
            "encoder": kinds[name],
            "decoder": result["decoder"]["kinds"][name],
        }
        for name in names
    ]
    return make_table(
        rows,
        (
            ("at 8 bits, all else at 16", "{kind}"),
            ("encoder, SNR dB", "{encoder:.1f}"),
            ("decoder, SNR dB", "{decoder:.1f}"),
        ),
    )
