"""Model scripts: what the vendor's twelve say, from a parsed network instead of by heart."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from whisper_hailo_tools.hef_build.job import BuildError, BuildJob
from whisper_hailo_tools.hef_build.model_script import (
    default_windows,
    model_script,
    read_network,
    size_of,
)

WIDTH = {"tiny": (384, 4), "tiny.en": (384, 4), "base": (512, 6), "base.en": (512, 6)}
ALL = [(part, size) for part in ("encoder", "decoder") for size in WIDTH]


def job_for(
    part: str, size: str, arch: str = "hailo8l", level: int | None = None
) -> BuildJob:
    d_model, n_layers = WIDTH[size]
    return BuildJob(
        arch=arch,
        part=part,
        size=size,
        net_name="net",
        graph="g.onnx",
        start_nodes=["x"],
        end_nodes=["y"],
        chip_inputs=[[1, 1, 2, 3]],
        d_model=d_model,
        n_layers=n_layers,
        calibration="c.npy",
        script=None,
        optimization_level=level,
        out="out",
    )


def parsed(part: str, size: str, first: int | None = None) -> dict[str, Any]:
    """Return a network as the compiler describes it, its convolutions numbered from `first`."""
    d, n_layers = WIDTH[size]
    layer = [[1, 1, d, 3 * d], [1, 1, d, d]]
    if part == "decoder":
        layer += [[1, 1, d, d]] * 4
    layer += [[1, 1, d, 4 * d], [1, 1, 4 * d, d]]
    kernels = layer * n_layers
    if part == "encoder":
        convolutions = [[1, 3, 80, d], [1, 3, d, d]]
        kernels = convolutions + kernels
    else:
        kernels += [[1, 1, d, 12966]] * 4
    start = 1 if first is None else first
    layers: dict[str, Any] = {
        "net/input_layer1": {"type": "input_layer", "output_shapes": [[-1, 1, 2, 3]]}
    }
    for i, kernel in enumerate(kernels):
        layers[f"net/conv{start + i}"] = {
            "type": "conv",
            "params": {"kernel_shape": kernel},
        }
    for kind in ("matmul", "ew_add", "normalization", "output_layer"):
        layers[f"net/{kind}1"] = {"type": kind}
    return {"layers": layers}


def script_for(
    part: str,
    size: str,
    arch: str = "hailo8l",
    n_windows: int = 4000,
    level: int | None = None,
) -> str:
    return model_script(
        job_for(part, size, arch, level), read_network(parsed(part, size)), n_windows
    )


def wide(script: str) -> list[int]:
    return sorted(
        int(n) for n in re.findall(r"\(conv(\d+), precision_mode=a16_w16\)", script)
    )


VENDOR = {
    ("encoder", "tiny"): sorted([*range(4, 19, 2), 5, 9, 13, 17]),
    ("encoder", "base"): sorted(
        [*range(4, 19, 2), 5, 9, 13, 17, 20, 21, 22, 24, 25, 26]
    ),
    ("decoder", "tiny"): sorted([*range(12, 33, 2), 25, 31]),
    ("decoder", "base"): list(range(12, 49, 2)),
}


@pytest.mark.parametrize(("part", "size"), ALL)
def test_model_script_gives_16_bits_to_the_vendors_layers(part: str, size: str) -> None:
    assert wide(script_for(part, size)) == VENDOR[part, size.removesuffix(".en")]


@pytest.mark.parametrize(
    ("part", "size", "expected"),
    [
        (
            "encoder",
            "tiny",
            ["calibset_size=1024", "dataset_size=3340, epochs=6", "batch_size=8)"],
        ),
        (
            "encoder",
            "tiny.en",
            ["dataset_size=3340, epochs=6", "batch_size=4)", "level=max"],
        ),
        (
            "encoder",
            "base",
            ["calibset_size=512", "dataset_size=2048, epochs=4", "batch_size=4)"],
        ),
        (
            "decoder",
            "tiny",
            ["calibset_size=128", "dataset_size=1024, epochs=4", "=0.8)"],
        ),
        ("decoder", "tiny.en", ["layer_norm_decomposition", "max_utilization=0.7"]),
        ("decoder", "base", ["calibset_size=256", "max_utilization=0.8"]),
    ],
)
def test_model_script_has_the_vendors_numbers(
    part: str, size: str, expected: list[str]
) -> None:
    script = script_for(part, size)
    for words in (
        *expected,
        "learning_rate=0.00001",
        "checker_cfg",
        "optimize_for_batch=1",
    ):
        assert words in script


@pytest.mark.parametrize("part", ["encoder", "decoder"])
@pytest.mark.parametrize("size", WIDTH)
def test_model_script_depends_on_the_chip(part: str, size: str) -> None:
    decomposed = {
        arch: "layer_norm_decomposition" in script_for(part, size, arch)
        for arch in ("hailo8", "hailo8l", "hailo10h")
    }
    always = part == "decoder" and size == "tiny.en"
    on_10h = always or size in ("tiny", "base")
    assert decomposed == {"hailo8": always, "hailo8l": always, "hailo10h": on_10h}
    assert ("max_utilization=0.7" in script_for("decoder", "tiny", "hailo10h")) is True
    assert ("max_utilization=0.8" in script_for("decoder", "tiny", "hailo8")) is True


def test_model_script_widens_adds_but_the_first() -> None:
    encoder = script_for("encoder", "tiny")
    decoder = script_for("decoder", "tiny")
    assert encoder.index("{ew_add*}, precision_mode=a16_w16") < encoder.index(
        "(ew_add1,"
    )
    assert "(ew_add1, precision_mode=a8_w8)" in encoder
    assert "ew_add1," not in decoder
    assert "{output_layer*}, precision_mode=a16_w16" in decoder
    assert "{output_layer*}" not in script_for("decoder", "base")
    assert "compression_level" not in encoder


def test_model_script_asks_for_no_more_windows() -> None:
    script = script_for("encoder", "tiny", n_windows=5)
    assert set(re.findall(r"(?:calibset|dataset)_size=(\d+)", script)) == {"5"}
    assert set(re.findall(r"batch_size=(\d+)", script)) == {"5"}


@pytest.mark.parametrize(
    ("level", "tunes"), [(0, False), (1, False), (2, True), (4, True)]
)
def test_model_script_of_low_levels_does_not_tune(level: int, tunes: bool) -> None:
    script = script_for("encoder", "base", level=level)
    assert f"optimization_level={level}, compression_level=0" in script
    assert ("finetune" in script) is tunes


def test_model_script_uses_the_networks_names() -> None:
    network = read_network(parsed("encoder", "tiny", first=11))
    script = model_script(job_for("encoder", "tiny"), network, 4000)
    assert wide(script) == [number + 10 for number in VENDOR["encoder", "tiny"]]


@pytest.mark.parametrize("change", ["more", "unfused"])
def test_model_script_of_another_network_is_refused(change: str) -> None:
    hn = parsed("encoder", "tiny")
    if change == "more":
        hn["layers"]["net/conv99"] = {
            "type": "conv",
            "params": {"kernel_shape": [1, 1, 384, 384]},
        }
    else:
        hn["layers"]["net/conv3"]["params"]["kernel_shape"] = [1, 1, 384, 384]
    with pytest.raises(BuildError, match=r"16 and 4.*--script"):
        model_script(job_for("encoder", "tiny"), read_network(hn), 4000)


@pytest.mark.parametrize(
    "hn", [{}, {"layers": 3}, {"layers": {"net/conv1": {"type": "conv"}}}]
)
def test_read_network_of_other_descriptions_is_refused(hn: dict[str, Any]) -> None:
    with pytest.raises(BuildError):
        read_network(hn)


def test_size_of_and_default_windows() -> None:
    assert size_of(128, multilingual=True) == size_of(384, multilingual=True) == "tiny"
    assert size_of(512, multilingual=True) == "base"
    assert size_of(1280, multilingual=False) == "base.en"
    assert [
        default_windows(*row) for row in (("encoder", "tiny.en"), ("encoder", "base"))
    ] == [
        4000,
        2048,
    ]
    assert default_windows("decoder", "tiny") == 1024
    assert (
        replace(job_for("encoder", "tiny"), out="a").result(".hef").as_posix()
        == "a/net.hef"
    )
