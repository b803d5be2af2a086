"""Token identifiability: can a hidden token still be recognised as its input token?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy

from . import _core
from ._progress import ProgressBar
from ._transformer import Transformer


@dataclass(frozen=True)
class Identifiability:
    """One row per fold, layer trained on and layer tested on. `columns` goes into pandas.DataFrame as it is."""

    columns: dict[str, numpy.ndarray]

    def rate(self, layer: int, trained_on: int | None = None) -> float:
        """The share of the tokens of a layer that were identified, over all folds."""
        rows = (self.columns["tested_on"] == layer) & (self.columns["trained_on"] == (trained_on or layer))
        return float(self.columns["correct"][rows].sum() / self.columns["tokens"][rows].sum())


def token_identifiability(
    model: Transformer,
    texts: Sequence,
    map: str = "linear",
    distance: str = "cosine",
    loss: str | None = None,
    fit: str = "adam",
    layers: Sequence[int] | None = None,
    across_layers: bool = False,
    offset: int = 0,
    folds: int = 10,
    chosen_folds: Sequence[int] | None = None,
    learning_rate: float = 1e-4,
    batch: int = 256,
    patience: int = 20,
    most_epochs: int = 1000,
    hidden_units: int = 1000,
    seed: int = 1,
    progress: bool = True,
) -> Identifiability:
    """How many hidden tokens are nearest to their own input token among those of their text, layer by layer.

    The hidden token first passes through `map`: "identity", "linear" or "mlp", which learns from other texts, by "adam"
    or, for a linear map with loss="l2", by "least_squares". `distance` and `loss` are "cosine" or "l2". `offset` looks
    for a neighbour instead of the token itself. Ctrl-C stops it.

    >>> import nullscope
    >>> model = nullscope.Transformer.create(["a b c d"], width=8, heads=2, key_size=4, value_size=4, positions=8)
    >>> found = nullscope.token_identifiability(model, ["a b", "c d", "b c d", "d a"], map="identity", folds=2)
    >>> 0 <= found.rate(1) <= 1
    True
    """
    tokens = model._tokenize_all(texts)
    options = {
        "map": map, "distance": distance, "loss": loss, "fit": fit, "layers": list(layers or []),
        "across_layers": across_layers, "offset": offset, "folds": folds, "chosen_folds": list(chosen_folds or []),
        "learning_rate": learning_rate, "batch": batch, "patience": patience, "most_epochs": most_epochs,
        "hidden_units": hidden_units, "seed": seed,
    }  # fmt: skip
    with ProgressBar("identifiability", progress) as bar:
        return Identifiability(
            _core.token_identifiability(
                model._core, [t.ids for t in tokens], [t.segments for t in tokens], options, bar
            )
        )
