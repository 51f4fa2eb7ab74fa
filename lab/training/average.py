"""The mean of the weights of several states of one run, as a state that can be exported.

    python -m lab.training.average OUT/state.pt STATE ...

States that lie at the ends of a falling rate, and a few hundred steps apart, make different errors
about equally often; their mean makes fewer (Izmailov et al. 2018, "Averaging weights leads to wider
optima and better generalization"). It has no optimisers' memory, so a run cannot go on from it.
"""

import argparse
from pathlib import Path

import torch
from torch import Tensor


def mean(states: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Returns the mean of each array of models of one shape.

    Raises:
        ValueError: they hold different arrays.
    """
    names = states[0].keys()
    if any(state.keys() != names for state in states):
        raise ValueError("states of different models have no mean")
    return {
        name: torch.stack([state[name] for state in states]).mean(dim=0)
        for name in names
    }


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(description="The mean of several states' weights.")
    parser.add_argument("out", type=Path)
    parser.add_argument("states", type=Path, nargs="+")
    options = parser.parse_args()
    models = [torch.load(path, "cpu")["model"] for path in options.states]
    torch.save({"model": mean(models)}, options.out)


if __name__ == "__main__":
    main()
