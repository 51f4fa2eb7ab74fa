"""The model script (`.alls`) of a build, from its recipe and the parsed network."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .job import MODEL, BuildError, BuildJob
from .recipe import LEARNING_RATE, Recipe, recipe_of

LINEAR_PER_LAYER = {"encoder": 4, "decoder": 8}
"""Fused QKV, output, two of the feed-forward; a decoder adds query, key, value and output."""

N_CHUNKS = 4
"""Products that a decoder's vocabulary is cut into, last in the network."""


@dataclass(frozen=True)
class Product:
    """A linear product of the network: a convolution of one by one."""

    name: str
    n_in: int
    n_out: int


@dataclass(frozen=True)
class HefNetwork:
    """What a model script needs to know of a parsed network.

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
    try:
        layers: dict[str, dict[str, Any]] = hn["layers"]
        products = [_product(name, layer) for name, layer in layers.items()]
        inputs = {
            name: tuple(layer["output_shapes"][0][1:])
            for name, layer in layers.items()
            if layer["type"] == "input_layer"
        }
        found = [product for product in products if product is not None]
        return HefNetwork(
            names=tuple(_short(name) for name in layers),
            products=tuple(sorted(found, key=lambda product: _number(product.name))),
            inputs=inputs,
        )
    except (KeyError, TypeError, IndexError, ValueError, AttributeError) as error:
        raise BuildError(
            MODEL,
            f"the compiler describes the parsed network in an unknown form ({error!r}); write the "
            "model script yourself and give it with --script",
        ) from error


def wide_products(network: HefNetwork, job: BuildJob, recipe: Recipe) -> list[str]:
    """Return names of the products that work with 16-bit weights and activations.

    Encoders: all but the fused query, key and value. Decoders: every second one from the
    recipe's first on, up to the vocabulary, and the recipe's extra ones. The vendor's scripts
    call them by number: conv4 to conv18 and conv12 to conv32 for tiny.
    """
    products = network.products
    chunks = N_CHUNKS if job.part == "decoder" else 0
    expected = LINEAR_PER_LAYER[job.part] * job.n_layers + chunks
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
    last = expected - chunks
    wanted = {*range(recipe.first_wide, last + 1, 2), *recipe.extra_wide}
    return [products[number - 1].name for number in sorted(wanted) if number <= last]


def renumbered(network: HefNetwork, job: BuildJob) -> bool:
    """Return whether the compiler numbers the products otherwise than in the vendor's scripts.

    There an encoder's first linear product is conv3, after two true convolutions, a decoder's
    conv1.
    """
    first = 3 if job.part == "encoder" else 1
    names = [product.name for product in network.products]
    return names != [f"conv{number}" for number in range(first, first + len(names))]


def _product(name: str, layer: dict[str, Any]) -> Product | None:
    if layer["type"] != "conv":
        return None
    height, width, n_in, n_out = layer["params"]["kernel_shape"]
    return Product(_short(name), n_in, n_out) if (height, width) == (1, 1) else None


def _short(name: str) -> str:
    return name.rsplit("/", 1)[-1]


def _number(name: str) -> int:
    digits = re.search(r"(\d+)$", name)
    return int(digits.group(1)) if digits else 0


DEFAULT_LEVEL = 2
_FIRST_TUNING_LEVEL = 2
"""Below it the compiler only equalises and corrects biases."""


def model_script(job: BuildJob, network: HefNetwork, n_windows: int) -> str:
    """Return the script's text.

    Every layer name is the compiler's; no command asks for more than `n_windows` windows.
    """
    recipe = recipe_of(job.part, job.size, job.arch)
    level = DEFAULT_LEVEL if job.optimization_level is None else job.optimization_level
    lines = [
        _flavor(recipe, level),
        "model_optimization_config(calibration, "
        f"batch_size={min(recipe.calib_batch, n_windows)}, "
        f"calibset_size={min(recipe.calib_count, n_windows)})",
    ]
    if level >= _FIRST_TUNING_LEVEL:
        lines.append(_tuning(recipe, n_windows))
    lines += _before_quantization(recipe, network)
    lines += [_wide(name) for name in wide_products(network, job, recipe)]
    # Residual adds at 8 bits are what ruins an encoder.
    lines += [_wide("{ew_add*}")] if network.has("ew_add") else []
    if recipe.small_first_add and "ew_add1" in network.names:
        lines.append("quantization_param(ew_add1, precision_mode=a8_w8)")
    if recipe.wide_outputs and network.has("output_layer"):
        lines.append(_wide("{output_layer*}"))
    effort = "compiler_optimization_level=max, " if recipe.max_effort else ""
    lines.append(f"performance_param({effort}optimize_for_batch=1)")
    if recipe.max_utilization is not None:
        lines.append(f"resources_param(max_utilization={recipe.max_utilization})")
    lines.append("model_optimization_config(checker_cfg, policy=enabled)")
    return "\n".join(lines) + "\n"


def _flavor(recipe: Recipe, level: int) -> str:
    compression = (
        ""
        if recipe.compression_level is None
        else f", compression_level={recipe.compression_level}"
    )
    return f"model_optimization_flavor(optimization_level={level}{compression})"


def _tuning(recipe: Recipe, n_windows: int) -> str:
    batch = "" if recipe.tune_batch is None else f", batch_size={min(recipe.tune_batch, n_windows)}"
    return (
        "post_quantization_optimization(finetune, policy=enabled, "
        f"dataset_size={min(recipe.tune_count, n_windows)}, epochs={recipe.tune_epochs}, "
        f"learning_rate={LEARNING_RATE}{batch})"
    )


def _before_quantization(recipe: Recipe, network: HefNetwork) -> list[str]:
    lines = []
    if recipe.matmul_mending:
        lines.append("pre_quantization_optimization(ew_add_fusing, policy=disabled)")
    if recipe.matmul_mending and network.has("matmul"):
        lines += [
            "pre_quantization_optimization(matmul_correction, layers={matmul*}, "
            "correction_type=zp_comp_block)",
            "pre_quantization_optimization(matmul_equalization, layers={matmul*}, "
            "matmul_bias=enabled)",
        ]
    if recipe.norm_decomposition:
        lines.append(
            "pre_quantization_optimization(layer_norm_decomposition, "
            "bit_decomposition_mode=uniform_precision, equalization=disabled)"
        )
    return lines


def _wide(layer: str) -> str:
    return f"quantization_param({layer}, precision_mode=a16_w16)"
