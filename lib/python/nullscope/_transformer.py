"""Transformers that read text: pretrained ones by name or folder, and ones that are trained here."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Union

import numpy

from . import _core
from ._attention import EffectiveAttention, effective_attention
from ._core import Device
from ._devices import chosen
from ._progress import ProgressBar
from ._text import Tokens, folder_of, tokens_of

Text = Union[str, Sequence[int]]  # a text, or the ids of its tokens


class Heads(NamedTuple):
    """The heads of one layer, as `effective_attention` takes them."""

    q: numpy.ndarray  # (heads, S, d_k)
    k: numpy.ndarray  # (heads, S, d_k)
    v: numpy.ndarray  # (heads, S, d_v), with its bias
    h: numpy.ndarray  # (heads, d_v, d)
    bias: numpy.ndarray | None  # (heads, S, S): of the scores, in models with relative positions


@dataclass(frozen=True)
class Encoding:
    """What happens inside a model that reads a text of S tokens."""

    tokens: Tokens
    hidden: numpy.ndarray  # (layers + 1, S, d)
    embedding: numpy.ndarray | None  # (d): pooled from the last hidden state
    attention: numpy.ndarray | None  # (layers, heads, S, S)
    heads: Heads | None  # of the layer that was asked for


@dataclass(frozen=True)
class Attribution:
    """c[l, j, i]: the share of input token i in hidden token j of layer l."""

    tokens: Tokens
    layers: list[int]
    contribution: numpy.ndarray  # (layers, S, S); each row sums to one
    norm: numpy.ndarray  # (layers, S, S): of the Jacobians, before normalisation
    standard_error: numpy.ndarray | None  # of the contribution, if it was estimated


class TrainingStep(NamedTuple):
    loss: float  # mean of -log p(label)
    accuracy: float


class Transformer:
    """An encoder or causal decoder. `Transformer.load` reads one, `Transformer.create` makes one to be trained."""

    def __init__(self, core: Any, encoder: Any = None, folder: str | None = None) -> None:
        self._core = core
        self._encoder = encoder
        self.folder = folder

    @classmethod
    def load(
        cls, name_or_folder: str = "minilm", dtype: str = "float32", device: Device | str | None = None
    ) -> Transformer:
        """Reads a model: by name ("minilm", "mpnet"; fetched once), or a Hugging Face folder of BERT, DistilBERT, MPNet
        or GPT-2, or a folder that `save` wrote. `dtype` is "float32" or "float64".

        >>> import nullscope
        >>> model = nullscope.Transformer.load("minilm")  # doctest: +MINILM
        >>> model.config["layers"], model.config["width"]  # doctest: +MINILM
        (6, 384)
        """
        folder = folder_of(os.fspath(name_or_folder))
        return cls(_class_of(dtype).load(chosen(device), folder), _core.TextEncoder(folder), folder)

    @classmethod
    def create(
        cls,
        texts: Sequence[str] | None = None,
        labels: Sequence[str] = (),
        seed: int = 1,
        dtype: str = "float32",
        device: Device | str | None = None,
        minimum_count: int = 1,
        **config: Any,
    ) -> Transformer:
        """A model with random parameters. Its vocabulary is the words of `texts`; without them it reads ids, and
        vocabulary=... says how many there are. `labels` are the names of its classes. Other settings are those of
        `config`: layers, width, heads, key_size, value_size, feed_forward, positions, heads_are, pre_norm, causal, ...

        >>> import nullscope
        >>> model = nullscope.Transformer.create(["good", "bad"], labels=["no", "yes"], width=16, heads=2, key_size=4,
        ...                                      value_size=8, feed_forward=32, positions=8)
        >>> model.tokenize("good or bad").tokens
        ['[CLS]', 'good', '[UNK]', 'bad']
        """
        encoder = None
        if texts is not None:
            encoder = _core.TextEncoder.of_words(list(texts), minimum_count)
            config.setdefault("vocabulary", encoder.vocabulary_size)
        if labels:
            config.setdefault("classes", len(labels))
        names = list(labels) or [str(i) for i in range(config.get("classes", 0))]
        core = _class_of(dtype).create(chosen(device), {"layers": 1, **config}, seed, names)
        unknown = set(config) - set(core.config)
        if unknown:
            raise TypeError(f"Transformer.create: there is no setting {', '.join(sorted(unknown))}")
        return cls(core, encoder)

    @property
    def config(self) -> dict:
        """The sizes and kind of the model."""
        return self._core.config

    @property
    def labels(self) -> list[str]:
        """The names of the classes, if it is a classifier."""
        return self._core.labels

    @property
    def device(self) -> Device:
        return self._core.device

    def __repr__(self) -> str:
        c = self.config
        return (
            f"<nullscope.Transformer {self._core.family}: {c['layers']} layers, d = {c['width']}, {c['heads']} heads>"
        )

    def parameters(self) -> dict[str, numpy.ndarray]:
        """Copies of all parameters, by name."""
        return self._core.parameters()

    def save(self, folder: str) -> None:
        """Writes a model folder that `load` reads, and `transformers`, where it knows the architecture."""
        self._core.save(self._encoder, os.fspath(folder))

    def tokenize(self, text: Text) -> Tokens:
        """The tokens of a text, special tokens included, cut to what the model reads; ids stay what they are."""
        if isinstance(text, str):
            if self._encoder is None:
                raise ValueError("this model has no vocabulary: pass the ids of the tokens instead of a text")
            return tokens_of(self._encoder, text, self.config["positions"])
        ids = [int(i) for i in text]
        names = [self._encoder.token(i) if self._encoder else str(i) for i in ids]
        rest = range(len(ids))
        return Tokens(
            ids, names, [(0, 0) for _ in rest], [-1 for _ in rest], [False for _ in rest], [0 for _ in rest], False
        )

    def _tokenize_all(self, texts: Sequence[Text]) -> list[Tokens]:
        if isinstance(texts, str):
            raise TypeError("expected a list of texts, not one text")
        return [self.tokenize(text) for text in texts]

    def encode(
        self,
        text: Text | Sequence[Text],
        attention: bool = False,
        heads_of_layer: int | None = None,
        pool: str | None = "mean",
        normalise: bool = False,
    ) -> Any:
        """Hidden states of a text; on request the attention of all heads, and q, k, v and h of one layer (from 1); a
        sentence embedding (`pool`: "mean", "first", "last" or None). A list of texts gives a list, computed together.

        >>> import nullscope
        >>> model = nullscope.Transformer.create(["a b c"], width=8, heads=2, key_size=4, value_size=4, positions=8)
        >>> model.encode("c b", attention=True).attention.shape
        (1, 2, 3, 3)
        """
        is_one = isinstance(text, str) or (len(text) > 0 and not isinstance(text[0], (str, list, tuple, numpy.ndarray)))
        tokens = self._tokenize_all([text] if is_one else text)
        states = self._core.states(
            [t.ids for t in tokens], [t.segments for t in tokens], attention, heads_of_layer or 0, pool or "", normalise
        )
        results = [_encoding(t, state) for t, state in zip(tokens, states)]
        return results[0] if is_one else results

    def effective_attention(self, text: Text, layer: int) -> EffectiveAttention:
        """Effective attention of the heads of a layer, counted from 1, that reads a text.

        >>> import nullscope
        >>> model = nullscope.Transformer.create(["a b c"], width=8, heads=2, key_size=2, value_size=2, positions=8)
        >>> model.effective_attention("a b c", layer=1).null_dimension.tolist()
        [2, 2]
        """
        heads = self.encode(text, heads_of_layer=layer).heads
        return effective_attention(
            heads.q, heads.k, heads.v, heads.h, bias=heads.bias, causal=self.config["causal"], device=self.device
        )

    def logits(self, texts: Sequence[Text]) -> numpy.ndarray:
        """The logits (texts, classes) of a classifier."""
        tokens = self._tokenize_all(texts)
        parts = [tokens[i : i + 64] for i in range(0, len(tokens), 64)]
        return numpy.concatenate([self._core.logits([t.ids for t in p], [t.segments for t in p]) for p in parts])

    def predict(self, texts: Sequence[Text]) -> numpy.ndarray:
        """The probabilities (texts, classes) of a classifier."""
        logits = self.logits(texts)
        weights = numpy.exp(logits - logits.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    def train_step(
        self,
        texts: Sequence[Text],
        labels: Sequence[int | str],
        learning_rate: float = 1e-3,
        weight_decay: float = 0.0,
        largest_norm: float = 0.0,
        seed: int = 1,
    ) -> TrainingStep:
        """One step of AdamW with the gradient of the mean loss of these texts. Labels are numbers or names of classes;
        of a language model, lists of the id wanted at each token. A change of the options begins with new moments.

        >>> import nullscope
        >>> texts = ["good film", "bad film"]
        >>> model = nullscope.Transformer.create(texts, labels=["no", "yes"], width=16, heads=2, key_size=4,
        ...                                      value_size=8, feed_forward=32, positions=8)
        >>> losses = [model.train_step(texts, ["yes", "no"], learning_rate=0.01).loss for step in range(20)]
        >>> losses[-1] < 0.1 * losses[0]
        True
        """
        tokens = self._tokenize_all(texts)
        numbers = [self._label(label) for label in labels]
        loss, accuracy = self._core.train_step(
            [t.ids for t in tokens],
            [t.segments for t in tokens],
            numbers,
            learning_rate,
            weight_decay,
            largest_norm,
            seed,
        )
        return TrainingStep(loss, accuracy)

    def _label(self, label: Any) -> list[int]:
        if isinstance(label, str):
            if label not in self.labels:
                raise ValueError(f'there is no class "{label}"; the classes are: {", ".join(self.labels)}')
            return [self.labels.index(label)]
        return [int(label)] if numpy.ndim(label) == 0 else [int(one) for one in label]

    def attribution(
        self,
        text: Text,
        samples: int | None = 32,
        norm: str = "frobenius",
        layers: Sequence[int] | None = None,
        from_state: int = -1,
        seed: int = 0,
        progress: bool = True,
    ) -> Attribution:
        """Hidden Token Attribution: how much of each input token is in each hidden token, for all layers in one sweep.

        `samples` random tangents per token give an estimate with standard errors; None, or as many as the model is
        wide, gives the exact values. `norm` is "frobenius", "spectral" or "sum".

        >>> import nullscope
        >>> model = nullscope.Transformer.create(["a b c"], width=8, heads=2, key_size=2, value_size=4, positions=8)
        >>> found = model.attribution("a b c", samples=None)
        >>> found.contribution.shape, bool(abs(found.contribution.sum(axis=-1) - 1).max() < 1e-6)
        ((1, 4, 4), True)
        """
        if samples is not None and samples < 1:
            raise ValueError(f"attribution: samples is {samples}; expected at least 1, or None for the exact values")
        exact = samples is None or samples >= self.config["width"] or norm != "frobenius"
        tokens = self.tokenize(text)
        with ProgressBar("attribution", progress) as bar:
            found = self._core.attribution(
                tokens.ids, tokens.segments, 0 if exact else samples, norm, seed, from_state, list(layers or []), bar
            )
        return Attribution(tokens, **found)


def _class_of(dtype: str) -> Any:
    name = str(getattr(dtype, "__name__", dtype)).removeprefix("torch.")
    if name not in ("float32", "float64"):
        raise TypeError(f"dtype is {dtype}; expected float32 or float64")
    return _core.Transformer32 if name == "float32" else _core.Transformer64


def _encoding(tokens: Tokens, state: dict) -> Encoding:
    heads = Heads(*(state[name] for name in Heads._fields)) if state["q"] is not None else None
    return Encoding(tokens, state["hidden"], state["embedding"], state["attention"], heads)
