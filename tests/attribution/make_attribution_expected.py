#!/usr/bin/env python3
"""Makes tests/attribution/data: norms of the Jacobians of small models, by PyTorch in double.

    python3 -m venv venv && venv/bin/pip install torch==2.15.0 transformers==5.23.0 safetensors
    venv/bin/python tests/attribution/make_attribution_expected.py

The models are those of tests/model/data/models. For sequence i of their expected.safetensors, and each norm:

    i/frobenius, i/sum, i/spectral (layers, S, S): |de_j^l / dx_i| with j the row, x the sum of the embeddings
"""

import os
import pathlib

os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import torch  # noqa: E402
import transformers as hf  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

TESTS = pathlib.Path(__file__).parent.parent
MODELS = TESTS / "model" / "data" / "models"
DATA = TESTS / "attribution" / "data"
NAMES = ("bert", "distilbert_f16", "gpt2_bf16", "mpnet_base")
SEQUENCES = (0, 2)


def after_the_sum(model):
    """The module whose input is the sum of the embeddings."""
    if hasattr(model, "wte"):
        return model.drop
    return model.embeddings.LayerNorm


def jacobian_of(model, ids, segments):
    """(layers, S, d, S, d) and the number of layers: all hidden states with respect to the sum of the embeddings."""
    arguments = {"input_ids": ids[None], "output_hidden_states": True}
    if segments is not None:
        arguments["token_type_ids"] = segments[None]
    seen = {}
    module = after_the_sum(model)
    handle = module.register_forward_pre_hook(lambda _, inputs: seen.update(x=inputs[0].detach()))
    with torch.no_grad():
        model(**arguments)
    handle.remove()

    def states(x):
        replaced = module.register_forward_pre_hook(lambda *_: (x,))
        result = model(**arguments).hidden_states
        replaced.remove()
        return torch.stack(result[1:])[:, 0]

    return torch.autograd.functional.jacobian(states, seen["x"])[:, :, :, 0]


def main():
    DATA.mkdir(exist_ok=True)
    for name in NAMES:
        model = hf.AutoModel.from_pretrained(MODELS / name, attn_implementation="eager").double().eval()
        given = load_file(MODELS / name / "expected.safetensors")
        expected = {}
        for i in SEQUENCES:
            segments = given.get(f"{i}/segments")
            jacobian = jacobian_of(model, given[f"{i}/ids"].long(), None if segments is None else segments.long())
            blocks = jacobian.permute(0, 1, 3, 2, 4)  # (layers, S, S, d, d)
            expected[f"{i}/frobenius"] = blocks.norm(dim=(-2, -1))
            expected[f"{i}/sum"] = blocks.sum(dim=-2).norm(dim=-1)
            expected[f"{i}/spectral"] = torch.linalg.matrix_norm(blocks, ord=2)
        save_file({key: value.contiguous() for key, value in expected.items()}, DATA / f"{name}.safetensors")


if __name__ == "__main__":
    main()
