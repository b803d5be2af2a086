#!/usr/bin/env python3
"""Makes tests/model/data/models: small random models of every family, and what `transformers` computes with them.

    python3 -m venv venv && venv/bin/pip install torch==2.15.0 transformers==5.23.0 safetensors
    venv/bin/python tests/model/make_model_expected.py

Each folder holds a model as `transformers` saves it and expected.safetensors, computed in double from the numbers that
are in the folder, in one padded batch. Without padding, for sequence i:

    i/ids (S), i/segments (S), i/hidden (layers + 1, S, d), and where the model has them
    i/logits (classes), i/token_logits (S, vocabulary)
"""

import json
import os
import pathlib
import shutil

os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import torch  # noqa: E402
import transformers as hf  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

DATA = pathlib.Path(__file__).parent / "data" / "models"
LENGTHS = (13, 1, 6, 29)
PAD = 1  # never among the ids, so that MPNet's positions and GPT-2's last token are those of the whole sequence


def randomise(model, seed):
    """Weights large enough for attention to be far from uniform, and biases and norms far from 0 and 1."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        is_gamma = parameter.dim() == 1 and name.endswith("weight")
        with torch.no_grad():
            parameter.copy_(1 + 0.2 * noise if is_gamma else 0.35 * noise)


def inputs_of(config, seed):
    """Ids, segments and mask (sequences, longest), padded on the right."""
    generator = torch.Generator().manual_seed(seed)
    shape = (len(LENGTHS), max(LENGTHS))
    ids = torch.randint(2, config.vocab_size, shape, generator=generator)
    segments = torch.randint(0, 2, shape, generator=generator)
    mask = (torch.arange(shape[1])[None, :] < torch.tensor(LENGTHS)[:, None]).long()
    return torch.where(mask == 1, ids, PAD), segments, mask


def make(name, model, seed, dtype=torch.float32, shard="1GB"):
    folder = DATA / name
    shutil.rmtree(folder, ignore_errors=True)
    randomise(model, seed)
    model.eval().to(dtype).save_pretrained(folder, max_shard_size=shard)
    (folder / "generation_config.json").unlink(missing_ok=True)
    config = json.loads((folder / "config.json").read_text())
    model = type(model).from_pretrained(folder, attn_implementation="eager").double().eval()

    ids, segments, mask = inputs_of(model.config, seed)
    arguments = {"input_ids": ids, "attention_mask": mask, "output_hidden_states": True}
    has_segments = config["model_type"] == "bert"
    if has_segments:
        arguments["token_type_ids"] = segments
    with torch.no_grad():
        result = model(**arguments)
    expected = {}
    hidden = torch.stack(result.hidden_states)  # (layers + 1, sequences, S, d)
    for i, length in enumerate(LENGTHS):
        expected[f"{i}/ids"] = ids[i, :length].int()
        if has_segments:
            expected[f"{i}/segments"] = segments[i, :length].int()
        expected[f"{i}/hidden"] = hidden[:, i, :length]
        logits = getattr(result, "logits", None)
        if logits is not None:
            expected[f"{i}/logits" if logits.dim() == 2 else f"{i}/token_logits"] = (
                logits[i] if logits.dim() == 2 else logits[i, :length]
            )
    save_file({key: value.contiguous() for key, value in expected.items()}, folder / "expected.safetensors")


def bert(words, **more):
    return hf.BertConfig(
        vocab_size=words, hidden_size=21, num_attention_heads=3, num_hidden_layers=2, intermediate_size=29,
        max_position_embeddings=33, type_vocab_size=2, **more)  # fmt: skip


def gpt2(**more):
    return hf.GPT2Config(
        vocab_size=61, n_layer=3, n_inner=31, n_positions=32, bos_token_id=0, eos_token_id=0, pad_token_id=PAD, **more)  # fmt: skip


def mpnet(**more):
    return hf.MPNetConfig(
        vocab_size=53, hidden_size=20, num_attention_heads=5, num_hidden_layers=2, intermediate_size=27,
        max_position_embeddings=36, pad_token_id=PAD, **more)  # fmt: skip


# That of tests/text/data/bert_uncased, whose tokenizer tests put beside the model.
BERT_WORDS = len(json.loads((DATA.parents[2] / "text" / "data" / "bert_uncased" / "tokenizer.json").read_text())["model"]["vocab"])


def main():
    DATA.mkdir(parents=True, exist_ok=True)
    make("bert", hf.BertForSequenceClassification(bert(BERT_WORDS, num_labels=3)), 1)
    make("bert_sharded", hf.BertModel(bert(43, hidden_act="relu", layer_norm_eps=1e-5)), 2, shard="20KB")
    distil = hf.DistilBertConfig(
        vocab_size=47, dim=33, n_heads=3, n_layers=3, hidden_dim=23, max_position_embeddings=31, num_labels=2)  # fmt: skip
    make("distilbert_f16", hf.DistilBertForSequenceClassification(distil), 3, torch.float16)
    make("mpnet", hf.MPNetForSequenceClassification(mpnet(num_labels=4)), 4)
    make("mpnet_base", hf.MPNetModel(mpnet(layer_norm_eps=1e-5)), 5)
    make("gpt2_bf16", hf.GPT2LMHeadModel(gpt2(n_embd=27, n_head=3)), 6, torch.bfloat16)
    make("gpt2_classifier", hf.GPT2ForSequenceClassification(gpt2(n_embd=20, n_head=5, num_labels=2)), 7)


if __name__ == "__main__":
    main()
