"""Writes the model script (`.alls`) of a build from the recipe and the parsed network."""

from __future__ import annotations

from .job import BuildJob
from .network import HefNetwork, wide_products
from .recipe import LEARNING_RATE, Recipe, recipe_of

DEFAULT_LEVEL = 2
_FIRST_TUNING_LEVEL = 2
"""Below it the compiler only equalises and corrects biases."""


def model_script(job: BuildJob, network: HefNetwork, n_windows: int) -> str:
    """The script's text.

    Args:
        job: the build.
        network: as the compiler parsed it; every layer name comes from here.
        n_windows: windows in the calibration set; no command asks for more.
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
