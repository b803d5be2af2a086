"""Text as the tokens of a model, and models by name."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from . import _core


@dataclass(frozen=True)
class Tokens:
    """What a model reads of a text. All lists are equally long."""

    ids: list[int]
    tokens: list[str]  # as the vocabulary writes them
    offsets: list[tuple[int, int]]  # the characters of the text that a token stands for; (0, 0) for added tokens
    words: list[int]  # the word that a token belongs to; -1 for added tokens
    special: list[bool]  # added by the tokenizer, such as [CLS]
    segments: list[int]
    truncated: bool  # the text was longer than the model reads

    def __len__(self) -> int:
        return len(self.ids)


def _characters(text: str) -> dict[int, int]:
    """The character that begins at a byte of UTF-8."""
    places, byte = {}, 0
    for place, character in enumerate(text):
        places[byte] = place
        byte += len(character.encode("utf-8", "surrogatepass"))
    places[byte] = len(text)
    return places


def tokens_of(encoder: Any, text: str, max_length: int | None) -> Tokens:
    found = encoder.encode(text, None, max_length)
    place = _characters(text)
    offsets = [(place[begin], place[end]) for begin, end in found.pop("byte_offsets")]
    return Tokens(offsets=offsets, **found)


def models() -> list[dict]:
    """The models that have a name: what `Transformer.load` fetches on first use.

    >>> import nullscope
    >>> [model["name"] for model in nullscope.models()]
    ['minilm', 'mpnet']
    """
    return _core.known_models()


def folder_of(name_or_folder: str) -> str:
    """The folder of a model; tells on stderr what is fetched."""
    return _core.resolve_model(str(name_or_folder), lambda text: print(f"nullscope: {text}", file=sys.stderr))
