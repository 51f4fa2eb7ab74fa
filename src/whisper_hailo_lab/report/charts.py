"""The report's pictures, as SVG and PNG, from summaries; the same records give the same bytes.

Bars of the study are hatched and in panels of their own: they are from other hardware and must not
be read along the same axis.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from whisper_hailo_lab.report.canvas import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    RED,
    Chart,
    draw_chart,
    legend,
    logarithmic,
    stacked,
)
from whisper_hailo_lab.report.gather import RunSource
from whisper_hailo_lab.report.study import LIBRISPEECH, MEMORY_MB
from whisper_hailo_lab.runs.summary import Summary

HATCH: Final = "////"
PUBLISHED: Final = "published (Raspberry Pi 5 + Hailo-8L)"
MEASURED: Final = "measured here"


def latency_chart(source: RunSource) -> Chart | None:
    """Stacked bars of encoder, decoder and the rest, measured and published."""
    shown = [s for s in source.systems if s.times is not None]
    if not shown:
        return None

    def draw(axes: Any) -> None:  # noqa: ANN401 - matplotlib has no types
        left, right = axes
        stacked(left, [(s.case.name, *_parts(s)) for s in shown], hatch=None)
        left.set_title(MEASURED)
        published = [
            (row.name, row.encoder_ms or 0.0, row.decoder_ms or 0.0,
             row.total_ms - (row.encoder_ms or 0.0) - (row.decoder_ms or 0.0))
            for row in LIBRISPEECH
        ]  # fmt: skip
        stacked(right, published, hatch=HATCH)
        right.set_title(PUBLISHED)
        for ax in axes:
            ax.set_xlabel("mean ms per file")
        legend(left, 3)

    rows = max(len(shown), len(LIBRISPEECH))
    return draw_chart("latency", "Time per file: encoder, decoder, the rest", draw, (1, 2), rows)


def _parts(summary: Summary) -> tuple[float, float, float]:
    """Encoder, decoder and the rest in mean milliseconds."""
    times = summary.times
    if times is None:
        return 0.0, 0.0, 0.0
    encoder, decoder = times.encoder_ms or 0.0, times.decoder_ms or 0.0
    return encoder, decoder, max(0.0, times.total_ms - encoder - decoder)


def tail_chart(source: RunSource) -> Chart | None:
    """Every file's time, with the median and the 95th percentile."""
    shown = [s for s in source.systems if s.times is not None]
    if not shown:
        return None

    def draw(axes: Any) -> None:  # noqa: ANN401
        ax = axes[0]
        for y, summary in enumerate(shown):
            files = [r.total_ms for r in source.files[summary.case.name] if not r.error]
            ax.plot(files, [y] * len(files), "|", color=GREY, markersize=9)
            times = summary.times
            if times is not None:
                ax.plot(times.median_ms, y, "o", color=BLUE, label="median" if y == 0 else None)
                ax.plot(
                    times.p95_ms, y, "D", color=RED, label="95th percentile" if y == 0 else None
                )
        ax.set_yticks(range(len(shown)), [s.case.name for s in shown])
        ax.invert_yaxis()
        logarithmic(ax)
        ax.set_xlabel("ms per file (logarithmic); a line is one file")
        legend(ax, 2)

    return draw_chart("tail", "Tail latency", draw, (1, 1), len(shown))


def memory_chart(source: RunSource) -> Chart | None:
    """Load and warm-up per component, measured and published."""
    bars = [
        (f"{s.case.name}: {component}", s.case.memory.load.get(component, 0.0),
         s.case.memory.warm_up.get(component, 0.0))
        for s in source.systems
        for component in dict.fromkeys([*s.case.memory.load, *s.case.memory.warm_up])
    ]  # fmt: skip
    if not bars:
        return None

    def draw(axes: Any) -> None:  # noqa: ANN401
        left, right = axes
        published = [(name, load, warm - load) for name, (load, warm) in MEMORY_MB.items()]
        for ax, rows, hatch in ((left, bars, None), (right, published, HATCH)):
            labels = [row[0] for row in rows]
            load, warm = (np.array([row[i] for row in rows]) for i in (1, 2))
            style = {"hatch": hatch, "edgecolor": "white"}
            ax.barh(labels, load, color=GREEN, label="load", **style)
            ax.barh(labels, warm, left=load, color=ORANGE, label="warm-up", **style)
            ax.invert_yaxis()
        left.set_title(MEASURED)
        right.set_title(PUBLISHED)
        left.set_xlabel("growth of resident memory, MiB")
        right.set_xlabel("MB")
        legend(left, 2)

    return draw_chart("memory", "Memory by component", draw, (1, 2), max(len(bars), len(MEMORY_MB)))


def accuracy_chart(source: RunSource) -> Chart | None:
    """Word error rates in both forms."""
    shown = [s for s in source.systems if s.n_heard]
    if not shown:
        return None

    def draw(axes: Any) -> None:  # noqa: ANN401
        left, right = axes
        y = np.arange(len(shown))
        corpus = [100 * s.normalised.words.rate for s in shown]
        simple = [100 * s.simple.mean_wer for s in shown]
        left.barh(y - 0.2, corpus, 0.4, color=BLUE, label="corpus WER, normalised")
        left.barh(y + 0.2, simple, 0.4, color=ORANGE, label="mean WER, simple (the study's)")
        left.set_yticks(y, [s.case.name for s in shown])
        right.barh(
            [row.name for row in LIBRISPEECH], [100 * row.wer for row in LIBRISPEECH],
            color=ORANGE, hatch=HATCH, edgecolor="white",
        )  # fmt: skip
        left.set_title(MEASURED)
        right.set_title(f"{PUBLISHED}, LibriSpeech")
        for ax in axes:
            ax.invert_yaxis()
            ax.set_xlabel("%")
        legend(left, 2)

    return draw_chart(
        "accuracy", "Word error rate", draw, (1, 2), max(len(shown), len(LIBRISPEECH))
    )


def scatter_chart(source: RunSource) -> Chart | None:
    """Word error rate against time, each point a case."""
    shown = [s for s in source.systems if s.times is not None]
    if not shown:
        return None

    def draw(axes: Any) -> None:  # noqa: ANN401
        left, right = axes
        for number, s in enumerate(shown, 1):
            if s.times is not None:
                x, y = s.times.median_ms, 100 * s.simple.mean_wer
                colour = BLUE if s.case.system == "ours" else RED
                left.plot(x, y, "o", color=colour)
                left.annotate(str(number), (x, y), (4, 4), textcoords="offset points", fontsize=8)
                left.plot([], [], " ", label=f"{number}  {s.case.name}")
        for row in LIBRISPEECH:
            right.plot(row.total_ms, 100 * row.wer, "o", mfc="none", color=GREY)
            right.annotate(
                row.name, (row.total_ms, 100 * row.wer), (0, 6), textcoords="offset points",
                fontsize=7, ha="center",
            )  # fmt: skip
        left.set_title(f"{MEASURED} (blue: ours)")
        right.set_title(PUBLISHED)
        right.margins(0.25, 0.15)
        for ax in axes:
            logarithmic(ax)
            ax.set_xlabel("ms per file (logarithmic)")
            ax.set_ylabel("simple mean WER, %")
        legend(left, 2)

    return draw_chart("scatter", "Accuracy against time", draw, (1, 2), 9)
