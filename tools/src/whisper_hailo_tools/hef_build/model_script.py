"""The model script (`.alls`) of a build, from the parsed network and the vendor's own scripts.

Source: the twelve scripts of hailocs/hailo-whisper (commit 347d8a05), `conversion/optimization`.
Sizes that the vendor never compiled take the row of base, the widest there is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .job import MODEL, BuildError, BuildJob

LINEAR_PER_LAYER = {"encoder": 4, "decoder": 8}
"""Fused QKV, output, two of the feed-forward; a decoder adds query, key, value and output."""

N_CHUNKS = 4
"""Number of products for a decoder's vocabulary, last in the network."""

DEFAULT_LEVEL = 2
_FIRST_TUNING_LEVEL = 2
"""Below it the compiler only equalises and corrects biases."""


@dataclass(frozen=True)
class Product:
    """A linear product of the network, which to the compiler is a convolution of one by one."""

    name: str
    n_in: int
    n_out: int


@dataclass(frozen=True)
class HefNetwork:
    """The facts about a parsed network that a model script needs.

    Attributes:
        names: layer names without the network's, in its order.
        products: the linear products, by number.
        inputs: full name of each input layer to its shape `(height, width, channels)`.
    """

    names: tuple[str, ...]
    products: tuple[Product, ...]
    inputs: dict[str, tuple[int, ...]]

    def has(self, prefix: str) -> bool:
        """Return whether a layer's name begins so."""
        return any(name.startswith(prefix) for name in self.names)


def read_network(hn: dict[str, Any]) -> HefNetwork:
    """Read the compiler's own description of the network (HN).

    Args:
        hn: `{"layers": {"net/conv1": {"type": ..., "input_shapes": ..., "params": ...}}}`.
    """
    names: list[str] = []
    products: dict[int, Product] = {}
    inputs: dict[str, tuple[int, ...]] = {}
    try:
        for full_name, layer in hn["layers"].items():
            _, _, name = full_name.rpartition("/")
            names.append(name)
            if layer["type"] == "input_layer":
                _, *shape = layer["output_shapes"][0]
                inputs[full_name] = tuple(shape)
            elif layer["type"] == "conv":
                height, width, n_in, n_out = layer["params"]["kernel_shape"]
                if (height, width) == (1, 1):
                    match = re.search(r"\d+$", name)
                    number = int(match[0]) if match else 0
                    products[number] = Product(name, n_in, n_out)
    except (KeyError, TypeError, IndexError, ValueError, AttributeError) as error:
        raise BuildError(
            MODEL,
            f"the compiler describes the parsed network in an unknown format ({error!r}); write "
            "the model script yourself and give it with --script",
        ) from error
    ordered = tuple(products[number] for number in sorted(products))
    return HefNetwork(tuple(names), ordered, inputs)


def size_of(d_model: int, *, multilingual: bool) -> str:
    """Return the row of a model in `RECIPES`: tiny up to width 384, base beyond it."""
    size = "tiny" if d_model <= 384 else "base"
    return size if multilingual else f"{size}.en"


def default_windows(part: str, size: str) -> int:
    """Return how many windows a calibration set should have: fine-tuning uses most of them."""
    if part == "decoder":
        return 1024
    return 4000 if size.startswith("tiny") else 2048


@dataclass(frozen=True)
class Recipe:
    """The numbers of one model script.

    Attributes:
        calib_batch: windows per batch of the statistics.
        calib_count: windows for the statistics, the first of the set.
        tune_count: windows per epoch of the fine-tuning.
        tune_batch: windows per batch of the fine-tuning; `None` is the compiler's default.
    """

    calib_batch: int
    calib_count: int
    tune_count: int
    tune_epochs: int
    tune_batch: int | None


RECIPES = {
    ("encoder", "tiny"): Recipe(8, 1024, 3340, 6, 8),
    ("encoder", "tiny.en"): Recipe(8, 1024, 3340, 6, 4),
    ("encoder", "base"): Recipe(8, 512, 2048, 4, 4),
    ("encoder", "base.en"): Recipe(8, 512, 2048, 4, 4),
    ("decoder", "tiny"): Recipe(4, 128, 1024, 4, None),
    ("decoder", "tiny.en"): Recipe(4, 128, 1024, 4, None),
    ("decoder", "base"): Recipe(4, 256, 1024, 4, None),
    ("decoder", "base.en"): Recipe(4, 256, 1024, 4, None),
}


def model_script(job: BuildJob, network: HefNetwork, n_windows: int) -> str:
    """Return the script's text.

    Every layer name is the compiler's; no command asks for more than `n_windows` windows.
    """
    lines = [
        *_optimization_lines(job, n_windows),
        *_lines_before_quantization(job, network),
        *_precision_lines(job, network),
        *_resource_lines(job),
        "model_optimization_config(checker_cfg, policy=enabled)",
    ]
    return "\n".join(lines) + "\n"


def _optimization_lines(job: BuildJob, n_windows: int) -> list[str]:
    recipe = RECIPES[job.part, job.size]
    level = DEFAULT_LEVEL if job.optimization_level is None else job.optimization_level
    # The scripts of tiny's encoder are the one family that leaves the compression level out.
    compression = (
        "" if (job.part, job.size) == ("encoder", "tiny") else ", compression_level=0"
    )
    lines = [
        f"model_optimization_flavor(optimization_level={level}{compression})",
        "model_optimization_config(calibration, "
        f"batch_size={min(recipe.calib_batch, n_windows)}, "
        f"calibset_size={min(recipe.calib_count, n_windows)})",
    ]
    if level >= _FIRST_TUNING_LEVEL:
        batch = ""
        if recipe.tune_batch is not None:
            batch = f", batch_size={min(recipe.tune_batch, n_windows)}"
        lines.append(
            "post_quantization_optimization(finetune, policy=enabled, "
            f"dataset_size={min(recipe.tune_count, n_windows)}, epochs={recipe.tune_epochs}, "
            f"learning_rate=0.00001{batch})"
        )
    return lines


def _precision_lines(job: BuildJob, network: HefNetwork) -> list[str]:
    lines = [_use_16_bits(name) for name in wide_products(network, job)]
    if network.has("ew_add"):  # residual adds at 8 bits ruin an encoder
        lines.append(_use_16_bits("{ew_add*}"))
    if job.part == "encoder" and "ew_add1" in network.names:
        lines.append("quantization_param(ew_add1, precision_mode=a8_w8)")
    if (
        job.part == "decoder"
        and job.size.startswith("tiny")
        and network.has("output_layer")
    ):
        lines.append(_use_16_bits("{output_layer*}"))
    return lines


def _resource_lines(job: BuildJob) -> list[str]:
    effort = ""
    if (job.part, job.size) == ("encoder", "tiny.en"):
        effort = "compiler_optimization_level=max, "
    lines = [f"performance_param({effort}optimize_for_batch=1)"]
    if job.part == "decoder":  # how full a context may get
        is_tight = job.size == "tiny.en" or (
            job.size == "tiny" and job.arch == "hailo10h"
        )
        utilization = "0.7" if is_tight else "0.8"
        lines.append(f"resources_param(max_utilization={utilization})")
    return lines


def _lines_before_quantization(job: BuildJob, network: HefNetwork) -> list[str]:
    lines = []
    if job.part == "encoder":
        lines.append("pre_quantization_optimization(ew_add_fusing, policy=disabled)")
        if network.has("matmul"):  # attention's own products
            lines += [
                "pre_quantization_optimization(matmul_correction, layers={matmul*}, "
                "correction_type=zp_comp_block)",
                "pre_quantization_optimization(matmul_equalization, layers={matmul*}, "
                "matmul_bias=enabled)",
            ]
    is_english_tiny_decoder = (job.part, job.size) == ("decoder", "tiny.en")
    if is_english_tiny_decoder or (
        job.arch == "hailo10h" and job.size in ("tiny", "base")
    ):
        lines.append(
            "pre_quantization_optimization(layer_norm_decomposition, "
            "bit_decomposition_mode=uniform_precision, equalization=disabled)"
        )
    return lines


def wide_products(network: HefNetwork, job: BuildJob) -> list[str]:
    """Return names of the products that work with 16-bit weights and activations.

    Encoders: all but the fused query, key and value. Decoders: every second one from the twelfth
    on, up to the vocabulary, and two more of tiny. The vendor's scripts name them by number: conv4
    to conv18 and conv12 to conv32 for tiny.
    """
    products = network.products
    n_chunks = N_CHUNKS if job.part == "decoder" else 0
    n_in_layers = LINEAR_PER_LAYER[job.part] * job.n_layers
    expected = n_in_layers + n_chunks
    fused = [product for product in products if product.n_out == 3 * job.d_model]
    if len(products) != expected or len(fused) != job.n_layers:
        raise BuildError(
            MODEL,
            f"the parsed network has {len(products)} linear products, {len(fused)} of them fused "
            f"query, key and value; the recipe expects {expected} and {job.n_layers}, so it "
            "cannot tell which go to 16 bits; write the model script yourself and give it with "
            "--script",
        )
    if job.part == "encoder":
        return [product.name for product in products if product not in fused]
    numbers = {*range(12, n_in_layers + 1, 2)}
    if job.size.startswith("tiny"):
        numbers |= {25, 31}
    return [
        products[number - 1].name for number in sorted(numbers) if number <= n_in_layers
    ]


def _use_16_bits(layer: str) -> str:
    return f"quantization_param({layer}, precision_mode=a16_w16)"
