"""The parsed network: its layers by kind, and which of its products go to 16 bits."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .fault import MODEL, BuildError
from .job import BuildJob
from .recipe import Recipe

LINEAR_PER_LAYER = {"encoder": 4, "decoder": 8}
"""Fused QKV, output, two of the feed-forward; a decoder adds query, key, value and output."""

N_CHUNKS = 4
"""Products that a decoder's vocabulary is cut into, last in the network."""


@dataclass(frozen=True)
class Product:
    """A linear product of the network: a convolution of one by one.

    Attributes:
        name: layer name without the network's.
        n_in: input channels.
        n_out: output channels.
    """

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
        """Whether a layer's name begins so."""
        return any(name.startswith(prefix) for name in self.names)


def read_network(hn: dict[str, Any]) -> HefNetwork:
    """Read the compiler's own description of the network (HN).

    Args:
        hn: `{"layers": {"net/conv1": {"type": ..., "input_shapes": ..., "params": ...}}}`.

    Raises:
        BuildError: it has another form.
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
    """Names of the products that work with 16-bit weights and activations.

    Encoders: all but the fused query, key and value. Decoders: every second one from the
    recipe's first on, up to the vocabulary, and the recipe's extra ones. The vendor's scripts
    call them by number: conv4 to conv18 and conv12 to conv32 for tiny.

    Raises:
        BuildError: the network has another number of products than the recipe counts on.
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
    """Whether the compiler numbers the products otherwise than in the vendor's scripts.

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
