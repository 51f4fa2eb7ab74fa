"""The picture of the emulated quantisation, a pure function of its result."""

from __future__ import annotations

from typing import Any, Final

from whisper_hailo.core.files import write_file
from whisper_hailo_lab.documents.emulation import LABELS, RESULT
from whisper_hailo_lab.report.canvas import BLUE, GREEN, GREY, RED, bars, draw_chart

PICTURE: Final = RESULT.with_suffix(".png")
COLOURS: Final = {"all8": RED, "adds16": BLUE, "norms16": GREEN, "script": "#333333"}
MARKERS: Final = {"all8": "o", "adds16": "s", "norms16": "^", "script": "D"}


def draw(result: dict[str, Any]) -> None:
    """Noise along the residual stream, at the output, and by kind of layer."""
    encoder = result["encoder"]

    def panels(axes: Any) -> None:  # noqa: ANN401 - matplotlib has no types
        _draw_stream(axes[0], encoder["plans"])
        _draw_plans(axes[1], encoder["plans"])
        _draw_kinds(axes[2], encoder["kinds"])

    title = "What 8 and 16 bits cost micro's encoder"
    write_file(PICTURE, draw_chart("emulation", title, panels, (1, 3), 8).png)


def _draw_stream(ax: Any, plans: list[dict[str, Any]]) -> None:  # noqa: ANN401
    """SNR after every residual add of the encoder."""
    for row in plans:
        if "adds_snr_db" in row:
            plan, values = row["plan"], row["adds_snr_db"]
            numbers = range(1, len(values) + 1)
            style = {"color": COLOURS[plan], "marker": MARKERS[plan], "markersize": 4}
            ax.plot(numbers, values, label=LABELS[plan], **style)
            ax.set_xticks(numbers)
    ax.set_xlabel("residual add, in the order of the encoder")
    ax.set_ylabel("SNR, dB (more is better)")
    ax.set_title("Noise along the residual stream")
    ax.legend(frameon=False)


def _draw_plans(ax: Any, plans: list[dict[str, Any]]) -> None:  # noqa: ANN401
    """SNR of the features and word error rate, per plan."""
    rows = [row for row in plans if "snr_db" in row]
    exact = next(row for row in plans if row["plan"] == "float32")
    labels = [f"{LABELS[row['plan']]}\n{100 * row['wer']:.1f} % WER" for row in rows]
    title = f"Encoder's output, SNR in dB (float32: WER {100 * exact['wer']:.1f} %)"
    colours = [COLOURS[row["plan"]] for row in rows]
    bars(ax, labels, [row["snr_db"] for row in rows], title, colour=colours)


def _draw_kinds(ax: Any, kinds: dict[str, float]) -> None:  # noqa: ANN401
    """SNR of the features when one kind alone has 8 bits."""
    names = sorted((name for name in kinds if name != "none"), key=lambda name: kinds[name])
    colours = [RED if name == "residual adds" else GREY for name in names]
    title = "One kind at 8 bits, all else at 16: SNR in dB (less: costs more)"
    bars(ax, names, [kinds[name] for name in names], title, colour=colours)
