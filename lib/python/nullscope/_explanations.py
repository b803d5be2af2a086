"""Explanations of a classifier's score, token by token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from . import _core
from ._core import Device
from ._devices import chosen
from ._transformer import Transformer


@dataclass(frozen=True)
class Explanation:
    """What the tokens of a text do to the score of a class. Arrays have one number per token; special tokens get 0."""

    tokens: list
    attribution: numpy.ndarray  # SLALOM: the linearised score v exp(s)
    attribution_error: numpy.ndarray | None  # standard errors; only of SLALOM
    of_class: int
    score: float  # of the text: log-odds of the class
    base: float  # of a text without tokens; NaN if the method has none
    fit_error: float  # mean squared error of the surrogate on its queries
    queries: int  # texts that the model was asked about
    notes: list[str]  # what does not hold
    value: numpy.ndarray | None  # SLALOM: v, the score of a token alone, and s, its weight among others
    importance: numpy.ndarray | None
    value_error: numpy.ndarray | None
    importance_error: numpy.ndarray | None
    derivative: numpy.ndarray | None  # SLALOM: of the score by the presence of a token
    removal: numpy.ndarray | None  # SLALOM: score minus that of the text without the token

    def ranked(self) -> list[tuple[Any, float]]:
        """Tokens and their attribution, the strongest first."""
        order = numpy.argsort(-abs(self.attribution), kind="stable")
        return [(self.tokens[i], float(self.attribution[i])) for i in order]


def explain(
    model: Transformer | Callable[[list], Any],
    text: str | Sequence[Any],
    method: str = "slalom",
    of_class: int | str | None = None,
    samples: int = 5000,
    fit: str = "least_squares",
    sampling: str = "short",
    length: int = 2,
    most_deleted: int = 5,
    tokens_by: str | None = None,
    seed: int = 1,
    device: Device | str | None = None,
) -> Explanation:
    """Which tokens of a text make a classifier decide as it does: by SLALOM or one of its baselines.

    `model` is a `Transformer` with a classifier, or a callable, a Hugging Face model for instance: it takes a list of
    texts and returns their logits (texts, classes), or log-odds (texts). If `text` is a string, its words are explained
    and the callable takes strings; if it is a list of tokens, of any kind, the callable takes lists of them.

    `method` is "slalom", "lime", "shap", "linear", "additive", or, for a Transformer, "gradient",
    "gradient_times_input" or "integrated_gradients". `of_class` is the predicted class by default. `fit`
    ("least_squares", "sgd", "analytic"), `sampling` ("short", "deletions") and `length` are SLALOM's; `tokens_by` is
    "id" or "place". Ctrl-C stops it.

    >>> import nullscope
    >>> says = {"good": 2.0, "bad": -3.0, "not": -1.0}
    >>> def log_odds(texts):
    ...     return [sum(says.get(word, 0.0) for word in text.split()) for text in texts]
    >>> found = nullscope.explain(log_odds, "a good film not bad", method="shap")
    >>> [(word, round(number, 6)) for word, number in found.ranked()[:2]]
    [('bad', -3.0), ('good', 2.0)]
    """
    if tokens_by not in (None, "id", "place"):
        raise ValueError(f'explain: tokens_by is "{tokens_by}"; expected "id", "place" or None')
    options = {
        "method": method, "fit": fit, "sampling": sampling, "samples": samples, "length": length,
        "most_deleted": most_deleted, "seed": seed, "by_id": None if tokens_by is None else tokens_by == "id",
        "of_class": of_class, "baseline_id": 0,
    }  # fmt: skip
    if isinstance(model, Transformer):
        if isinstance(of_class, str):
            options["of_class"] = model._label(of_class)[0]
        return _explain_transformer(model, text, options)
    if not callable(model):
        raise TypeError(f"explain: the model is of type {type(model).__name__}; expected a Transformer or a callable")
    return _explain_callable(model, text, options, chosen(device))


def _explain_transformer(model: Transformer, text: Any, options: dict) -> Explanation:
    tokens = model.tokenize(text)
    encoder = model._encoder
    empty = encoder.empty_id if encoder else None
    baseline = encoder.baseline_id if encoder else None
    options["baseline_id"] = 0 if baseline is None else baseline
    given = {"ids": tokens.ids, "special": tokens.special, "empty": [] if empty is None else [empty]}
    return Explanation(tokens=tokens.tokens, **_core.explain_model(model._core, given, options))


def _explain_callable(model: Callable, text: Any, options: dict, device: Device) -> Explanation:
    is_text = isinstance(text, str)
    tokens = text.split() if is_text else list(text)
    if not tokens:
        raise ValueError("explain: the text has no tokens")
    kinds = list(dict.fromkeys(tokens))
    number = {token: i for i, token in enumerate(kinds)}
    nothing = [len(kinds)]  # stands for a text without words

    def ask(sequences: list) -> Any:
        queries = [[] if ids == nothing else [kinds[i] for i in ids] for ids in sequences]
        answer = model([" ".join(query) for query in queries] if is_text else queries)
        if hasattr(answer, "logits"):  # what a Hugging Face model returns
            answer = answer.logits
        if hasattr(answer, "detach"):
            answer = answer.detach().cpu()
        return numpy.asarray(answer)

    ids = [number[token] for token in tokens]
    first = ask([ids])
    if first.ndim not in (1, 2) or len(first) != 1:
        raise ValueError(
            f"explain: the model gave scores of shape {first.shape} for one text; expected (1, classes) or (1,)"
        )
    classes = first.shape[1] if first.ndim == 2 else 1
    noise = 1e-5 if first.dtype in (numpy.float32, numpy.float16) else 1e-11

    def scores(sequences: list) -> numpy.ndarray:
        answer = ask(sequences)
        if answer.ndim == 1:
            answer = answer[:, None]
        return numpy.ascontiguousarray(answer, dtype=numpy.float64)

    given = {"ids": ids, "special": [], "empty": nothing if is_text else []}
    return Explanation(tokens=tokens, **_core.explain_callable(device, scores, classes, noise, given, options))
