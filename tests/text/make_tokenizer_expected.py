#!/usr/bin/env python3
"""Makes tests/text/data: small tokenizers of every kind, and what the real ones give for nasty text.

    python3 -m venv venv && venv/bin/pip install tokenizers==0.23.3 transformers==5.23.0
    venv/bin/python tests/text/make_tokenizer_expected.py

The tokenizers are trained here, on the text below, so that the files are small and belong to nobody else. texts.txt
holds the texts as bytes, with a line of four dashes behind each; <kind>/expected.json what `tokenizers` makes of them.
"""

import collections
import json
import os
import pathlib
import shutil

os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import tokenizers as hf  # noqa: E402
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers  # noqa: E402
from transformers import AutoTokenizer  # noqa: E402

DATA = pathlib.Path(__file__).parent / "data"
SEPARATOR = b"\n----\n"

PLAIN = """
The attention of one head is a matrix with a row for every token, and every row adds up to one.
When there are more tokens than the head has columns, other matrices give the same output.
A film that nobody wanted to see turned out to be the best thing I've watched this year; don't miss it!
She'll say it wasn't great, they're saying it's fine, we've all been there, and I'd rather not argue (again).
In 1984, 42% of 3,141 readers paid $5.99; 1/2 of them at 10:30 p.m., the others on 2020-02-29.
Unbelievably, internationalisation and re-identification are longer words than tokenizers usually like.
The naïve café owner's résumé mentioned Zürich, Malmö, São Paulo and a piñata.
""".strip().split("\n")

NASTY = [
    "",
    " ",
    " \t\n ",
    "Hello, World!",
    "   leading and   inner    spaces and a tail   ",
    "line one\nline two\r\nline three\rline four\n\n\nend\n",
    "tabs\tand\x0bvertical\x0cform feeds",
    "don't DON'T I'LL we've they're 's 't 're 've 'm 'll 'd 'x '",
    "U.S.A. e-mail: a.b@c.de https://x.org/?q=1&r=2#z $5.99 100% C++ #1",
    "snake_case camelCase UPPER123lower 12abc34 1,234,567.89 ½ ² Ⅷ ௧௨",
    "naïve café CAFÉ Ångström ǅ ﬁ ﬂ ß ẞ İstanbul ıi Σίσυφος ΣΑΣ",
    "nai\u0308ve cafe\u0301 A\u030angstro\u0308m \u1e69 s\u0323\u0307 s\u0307\u0323",
    "a\u0301\u0302\u0303\u0304\u0305 Z\u0334\u0351\u0360algo \u0301\u0301start",
    "ấ ệ ǭ ṩ 각 \u1100\u1161\u11a8 \u0344 \u0f73 \u2126 \u212b \u1fef \u037e",
    "\u3099\u302e\u302a\u302d か\u3099 \u1dfa\u0316\U0001d165\U0001d16e \U00010f4b\u0817",
    "你好,世界! 中文English混合 漢字とかなカナ 한국어 ㍿",
    "\u3400\u4db5\u9fff\uf900\ufa6d\U00020000\U0002a6d6\U0002b73f\U0002b81f"
    "\U0002b820\U0002b920\U0002ceaf\U0002f800\U00030000",
    "שלום עולם مرحبا بالعالم ‏RTL‎ \u202ereversed\u202c اَلْعَرَبِيَّةُ",
    "Привет мир ЙЁйё Ελληνικά ქართული ᏣᎳᎩ ꭰ हिन्दी ภาษาไทย",
    "Ｆｕｌｌｗｉｄｔｈ　ｔｅｘｔ，１２３！ ｶﾀｶﾅ",
    "😀 👍🏽 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪 ❤️ ☃ ©®™ 1️⃣",
    "zero\u200bwidth \u200cnon\u200djoiner \u2060word \ufeffbom soft\u00adhyphen",
    "nul\x00 bell\x07 esc\x1b del\x7f nel\x85 c1\x9f fs\x1c gs\x1d rs\x1e us\x1f",
    "nbsp\u00a0 ogham\u1680 en\u2000 em\u2003 thin\u2009 ls\u2028 ps\u2029 nnbsp\u202f mmsp\u205f ideo\u3000"
    " mvs\u180e end",
    "private \ue000 \U000f0000 \U0010fffd nonchar \ufffe \ufdd0 \U0001fffe unassigned \u0378 \U000e0080",
    "replacement \ufffd itself \ufffd\ufffd x\ufffdy",
    "‘quotes’ “double” «guillemets» – — … ‽ ¿¡ § ¶ † ‡ • ′ ″ ※ ⁂ ⸘ ⹃ ⹎",
    "+<=>^`|~ $€£¥₹ ±×÷≠≤≥∞ ←→⇒ °ºª ¬ ¯¨ `´^~",
    "[CLS] [SEP] [PAD] [UNK] [MASK] [cls] [Mask] x[MASK]y [MASK][MASK]",
    "<s> </s> <pad> <unk> <mask> <S> <UNK> a <mask>  <mask>b c\u3000<mask>",
    "<|endoftext|> a<|endoftext|>b <|ENDOFTEXT|> <|endoftext|><|endoftext|>",
    "x" * 99 + " " + "y" * 100 + " " + "z" * 101,
    "é" * 100 + " " + "é" * 101,
    "Unbelievably tokenizers' internationalisation: re-re-identification...",
    "!!!???...,,,;;; --- ((())) [[[]]] {{}} \\\\ // ''''' \"\"\"",
    " a  b   c    d\n e\n\n f \n g",
    "\u1885\u1886 \u166d \u1734 \ua9bd \U000111c9 \u08e2 \U000110cd \U0001d7d8",
    "\u1c89 \ua7cb \ua7dc \ua7ce \U00010d50 \U00016ea0 \u1e9e \u10a0 \u13a0 \uab70 \U0001e900",
    "\U0002ebf0\U0002ee5d a\U00010d40\U00010d41 b\U00016d40 c\U00013460",
]

BROKEN = [
    b"caf\xe9 latin-1",
    b"\x80\xbf stray continuation \xbf\x80",
    b"cut \xc3",
    b"cut \xe2\x82",
    b"cut \xf0\x9f\x98",
    b"cut \xe2\x82 inside \xf0\x9f\x98 text \xe2(\xa1",
    b"overlong \xc0\xaf \xe0\x80\xaf \xf0\x80\x80\xaf",
    b"surrogates \xed\xa0\x80\xed\xb0\x80 too high \xf4\x90\x80\x80 \xf5\xff\xfe",
    b"wor\xffd wor\xc3\x28d \xf0\x9f\x98\x80\xff\xf0\x9f\x98\x80",
]

TEXTS = [text.encode() for text in NASTY + PLAIN[:1]] + BROKEN


def spans(text):
    """The byte at which each character of text.decode(errors="replace") begins, and the end."""
    begins, place = [], 0
    while True:
        try:
            valid, fault = text[place:].decode(), None
        except UnicodeDecodeError as error:
            valid, fault = text[place : place + error.start].decode(), error
        for character in valid:
            begins.append(place)
            place += len(character.encode())
        if fault is None:
            return begins + [len(text)]
        begins.append(place)
        place += fault.end - fault.start


def encode(tokenizer, first, second=None, max_length=None, special=True):
    tokenizer.no_padding()
    tokenizer.no_truncation()
    if max_length is not None:
        tokenizer.enable_truncation(max_length)
    texts = [TEXTS[first]] + ([] if second is None else [TEXTS[second]])
    result = tokenizer.encode(*[text.decode("utf-8", "replace") for text in texts], add_special_tokens=special)
    bounds = [spans(text) for text in texts]
    case = {"text": first}
    if second is not None:
        case["pair"] = second
    if max_length is not None:
        case["max_length"] = max_length
    if not special:
        case["add_special_tokens"] = False
    sources = [-1 if source is None else source for source in result.sequence_ids]
    case["ids"] = result.ids
    case["begins"] = [0 if s < 0 else bounds[s][b] for s, (b, _) in zip(sources, result.offsets)]
    case["sizes"] = [0 if s < 0 else bounds[s][e] - bounds[s][b] for s, (b, e) in zip(sources, result.offsets)]
    case["words"] = [-1 if word is None else word for word in result.word_ids]
    if second is not None:
        case["segments"] = result.type_ids
        case["sources"] = sources
    if result.overflowing:
        case["truncated"] = True
    return case


def write_expected(folder, tokenizer, texts=range(len(TEXTS))):
    cases = [encode(tokenizer, i) for i in texts]
    for first, second in [(3, 8), (0, 3), (3, 0), (20, 15), (29, 29), (28, len(TEXTS) - 4), (0, 0)]:
        cases.append(encode(tokenizer, first, second))
    cases.append(encode(tokenizer, 3, 8, special=False))
    for max_length in [4, 5, 6, 7, 9, 12]:
        for first, second in [(3, 33), (33, 3), (0, 8), (33, 33)]:
            cases.append(encode(tokenizer, first, second, max_length))
        cases.append(encode(tokenizer, 8, None, max_length))
        cases.append(encode(tokenizer, 3, None, max_length, special=False))
    decoded = []
    for i in texts:
        ids = encode(tokenizer, i)["ids"]
        decoded.append({"text": i, "without_special": tokenizer.decode(ids)})
        if b"endoftext" in TEXTS[i] or b"<mask>" in TEXTS[i]:
            decoded[-1]["with_special"] = tokenizer.decode(ids, skip_special_tokens=False)
    content = {"cases": cases, "decoded": decoded, "vocabulary_size": tokenizer.get_vocab_size()}
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":")).replace('},{"text"', '},\n{"text"')
    (DATA / folder / "expected.json").write_text(text + "\n", encoding="utf-8")


def training_texts():
    return [text.decode("utf-8", "replace") for text in TEXTS] + PLAIN * 4


def wordpiece_vocabulary(special, lower_case):
    """The most frequent characters, and the beginnings and ends of words that save most; always the same."""
    normalizer = normalizers.BertNormalizer(lowercase=lower_case)
    characters, pieces = collections.Counter(), collections.Counter()
    for text in training_texts():
        for word, _ in pre_tokenizers.BertPreTokenizer().pre_tokenize_str(normalizer.normalize_str(text)):
            characters.update(word)
            for cut in range(2, min(len(word), 12) + 1):
                pieces[word[:cut]] += cut
                pieces["##" + word[-cut:]] += cut

    def most_common(counter, count):
        return [item for item, _ in sorted(counter.items(), key=lambda item: (-item[1], item[0]))[:count]]

    letters = most_common(characters, 250)
    return special + letters + ["##" + letter for letter in letters[:150]] + most_common(pieces, 300)


def make_folder(name, files):
    folder = DATA / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        (folder / file).write_text(text, encoding="utf-8", newline="\n")
    return folder


def make_wordpiece():
    bert = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    uncased = wordpiece_vocabulary(bert, True)
    files = {"vocab.txt": "\n".join(uncased) + "\n", "config.json": {"model_type": "bert"}}
    folder = make_folder("bert_uncased", files)
    tokenizer = AutoTokenizer.from_pretrained(folder).backend_tokenizer
    # As models are published: tokenizer.json alone, with settings for truncation and padding that are not ours to take.
    tokenizer.enable_truncation(16)
    tokenizer.enable_padding(length=16)
    (folder / "vocab.txt").unlink()
    (folder / "tokenizer.json").write_text(tokenizer.to_str(), encoding="utf-8")
    write_expected("bert_uncased", Tokenizer.from_file(str(folder / "tokenizer.json")))

    cased = wordpiece_vocabulary(bert, False)
    config = {"do_lower_case": False, "tokenizer_class": "DistilBertTokenizer", "model_max_length": 512}
    folder = make_folder("bert_cased", {"vocab.txt": "\n".join(cased), "tokenizer_config.json": config})
    (folder / "config.json").write_text(json.dumps({"model_type": "distilbert"}))
    write_expected("bert_cased", AutoTokenizer.from_pretrained(folder).backend_tokenizer)

    mpnet = ["<s>", "<pad>", "</s>", "[UNK]", "<mask>"]
    config = {"do_lower_case": True, "tokenizer_class": "MPNetTokenizer", "model_max_length": 1e30}
    vocabulary = mpnet + [token for token in uncased if token not in bert]
    folder = make_folder("mpnet", {"vocab.txt": "\r\n".join(vocabulary) + "\r\n", "tokenizer_config.json": config})
    (folder / "config.json").write_text(json.dumps({"model_type": "mpnet"}))
    write_expected("mpnet", AutoTokenizer.from_pretrained(folder).backend_tokenizer)


def make_byte_bpe():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=560,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(training_texts(), trainer)
    model = json.loads(tokenizer.to_str())["model"]
    vocabulary, merges = model["vocab"], [tuple(merge) for merge in model["merges"]]
    lines = ["#version: 0.2"] + [" ".join(merge) for merge in merges]
    files = {"vocab.json": vocabulary, "merges.txt": "\n".join(lines) + "\n", "config.json": {"model_type": "gpt2"}}
    folder = make_folder("gpt2", files)
    write_expected("gpt2", AutoTokenizer.from_pretrained(folder).backend_tokenizer)

    # The other half of what tokenizer.json may say: a space before the text, offsets without spaces, added tokens that
    # are words of their own or take spaces, and bos before each text.
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = hf.decoders.ByteLevel()
    tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=True, add_prefix_space=True),
            processors.TemplateProcessing(
                single="<|endoftext|> $A",
                pair="<|endoftext|> $A <|endoftext|>:1 $B:1",
                special_tokens=[("<|endoftext|>", 0)],
            ),
        ]
    )
    tokenizer.add_special_tokens(["<|endoftext|>", hf.AddedToken("<mask>", lstrip=True, rstrip=True)])
    tokenizer.add_tokens([hf.AddedToken("head", single_word=True), hf.AddedToken("[MASK]", rstrip=True), "ten"])
    folder = make_folder("gpt2_json", {"tokenizer.json": tokenizer.to_str()})
    texts = [*range(11), 20, 23, *range(28, 31), 33, 35, *range(len(TEXTS) - 10, len(TEXTS))]
    write_expected("gpt2_json", Tokenizer.from_file(str(folder / "tokenizer.json")), texts)


def main():
    DATA.mkdir(exist_ok=True)
    assert not any(SEPARATOR.strip() in text for text in TEXTS)
    (DATA / "texts.txt").write_bytes(SEPARATOR.join(TEXTS) + SEPARATOR)
    make_wordpiece()
    make_byte_bpe()


if __name__ == "__main__":
    main()
