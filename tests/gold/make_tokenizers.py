"""Small tokenizers of every kind that pacer reads, and what Hugging Face tokenizers makes of texts.

    python3 tests/gold/make_tokenizers.py tests/gold/tokenizers

writes KIND.json, a tokenizer.json, for each kind, and cases.json: "texts", and for each kind "ids"
of each text, "back", their text again without special tokens, and "drawn", lists of ids with their
text with and without special tokens. Needs the package tokenizers (0.23.3 made what is stored).
"""

import json
import pathlib
import random
import sys

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import AddedToken, trainers

WORDS = r"'s|'t|'re|'ve|'m|'ll|'d"
LLAMA3 = (r"(?i:" + WORDS + r")|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
ENDING = r"(?i:" + WORDS + r")?"
O200K = (r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + "+" + ENDING + r"|[^\r\n\p{L}\p{N}]?" + UPPER
         + "+" + LOWER + "*" + ENDING
         + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK3 = [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
             r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
             r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]
DEEPSEEK_CODER = ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+"]

LEARNED = """The quick brown fox jumps over the lazy dog. It's 2024, and we've 1,234,567 reasons to go!
def main(argc, argv):\n    return [x ** 2 for x in range(10) if x % 3 == 0]  # squares\n\n\n
Der Fluß fließt über die Brücke; où est le café? Привет, мир! Ελληνικά και άλλα. שלום مرحبا بالعالم
日本語のテキスト、中文文本。한국어 문장도 있다. हिन्दी में लिखा हुआ। 👍🏽 family: 👩‍👩‍👧‍👦 ½ x² ﬁne Ⅷ
""" * 3
TEXTS = [
    "", " ", "a", "Hello, world!", " Hello", "  two  spaces  ", "\n", "\r\n\r\n  \t x", "tail   ",
    "It's we'VE they'LL I'd 'S", "2024 1234567 3.14159 x1y22z333 １２３ ½ x² Ⅷ ٣٤٥",
    "def f(x):\n    if x > 0:\n\treturn x**2  # ok\n\n\n", "http://a.b/c?d=e&f=[g]#h_i-j",
    "éèê e\u0301e\u0300 A\u030a Å \u212b ﬁ ﬀ ㎏ ① ｆｕｌｌ", "q\u0323\u0307 q\u0307\u0323 d\u0323\u0307",
    "한국어 \u1112\u1161\u11ab \u1100\u1161", "日本語、中文。漢字かなカナ", "Привет МИР Ελλάς ΣΊΣΥΦΟΣ İI",
    "שָׁלוֹם مَرْحَبًا", "हिन्दी ไทย", "👍🏽👩‍👩‍👧‍👦🇩🇪 ❤️", "\u00a0nbsp\u2003em\u3000wide\u200bzero",
    "<s>glued</s>", " <s> around </s> ", "<mask>x <mask> y<mask>", "a  <mask>  b", "<L>word <L> a<L>b",
    "wordy word sword word", "é日 e\u0301日x", "<|endoftext|><|endoftext|> end", "HELLO Hello hello",
    "▁ ▁▁a ▁b",
    "camelCase HTMLParser aÉtéÀ", "one\n\n \n\ntwo \n", "a²b½c _d_ a\u0301b\u200dc Ⓐz हिन्दी",
    "<0x41><0x0A>", "....!!!???;;;", "a" * 120, "ab " * 40, " " * 50 + "x", "\U0001d4d0\U0001d4d1 𐍈",
    "\ufffd \ufeff mark", "Ǆ ǅ ǆ ß ẞ", "x\u0338 =\u0338 <\u0338",
    "क\u093c \u0958 \ufb2a \u2adc", "100%|50% $5 @me #tag",
]


def learn(pre, normalizer=None, alphabet=None, size=420):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre
    if normalizer is not None:
        t.normalizer = normalizer
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet or [],
                                  show_progress=False, special_tokens=[])
    t.train_from_iterator([LEARNED], trainer)
    return t


def byte_level(pre, normalizer=None, ignore_merges=False, added=()):
    """`pre` cuts the text; its last part writes bytes in the byte alphabet."""
    t = learn(pre, normalizer, pre_tokenizers.ByteLevel.alphabet())
    tree = json.loads(t.to_str())
    tree["model"]["ignore_merges"] = ignore_merges
    if ignore_merges:  # an entry that merges do not make
        tree["model"]["vocab"]["reasonable"] = len(tree["model"]["vocab"])
        tree["model"]["vocab"]["Hello"] = len(tree["model"]["vocab"])
    t = Tokenizer.from_str(json.dumps(tree))
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens(["<|endoftext|>", "<s>", "</s>"])
    t.add_tokens(list(added))
    return t


def characters(normalizer, pre, decoder, fallback=True, fuse=True, added=(), learned=None,
               ignore_merges=False):
    """Merges of characters with ▁ for spaces, as sentencepiece makes them."""
    trained = learn(learned or pre_tokenizers.Metaspace(), size=360)
    model = json.loads(trained.to_str())["model"]
    names = ["<unk>", "<s>", "</s>"]
    names += [f"<0x{i:02X}>" for i in range(256)] if fallback else []
    drop = set("日語漢ß²")  # characters without a token
    words = [w for w in model["vocab"] if not drop & set(w)]
    merges = [m for m in model["merges"] if not drop & set(m[0] + m[1])]
    vocab = {name: i for i, name in enumerate(names + [w for w in words if w not in names])}
    t = Tokenizer(models.BPE(vocab=vocab, merges=[tuple(m) for m in merges], unk_token="<unk>",
                             fuse_unk=fuse, byte_fallback=fallback, ignore_merges=ignore_merges))
    if normalizer is not None:
        t.normalizer = normalizer
    if pre is not None:
        t.pre_tokenizer = pre
    t.decoder = decoder
    t.add_special_tokens(["<unk>", "<s>", "</s>"])
    t.add_tokens(list(added))
    return t


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


def to_bytes(prefix=False, regex=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=regex)


def back(*last, sign="▁"):
    return decoders.Sequence([decoders.Replace(sign, " "), decoders.ByteFallback(), decoders.Fuse(),
                              *last])


def flagged(normalized):
    return [AddedToken("<mask>", lstrip=True, normalized=normalized),
            AddedToken("<L>", rstrip=True, normalized=normalized),
            AddedToken("word", single_word=True, normalized=normalized),
            AddedToken("Hello", normalized=True), AddedToken("é日", normalized=not normalized)]


def kinds():
    sequence, n = pre_tokenizers.Sequence, normalizers
    llama2 = n.Sequence([n.Prepend("▁"), n.Replace(" ", "▁")])
    metaspace = pre_tokenizers.Metaspace
    made = {
        "gpt2": byte_level(to_bytes(regex=True)),
        "roberta": byte_level(to_bytes(True, True), added=flagged(False)),
        "llama3": byte_level(sequence([split(LLAMA3), to_bytes()]), ignore_merges=True),
        "qwen2": byte_level(sequence([split(QWEN2), to_bytes()]), n.NFC(), added=flagged(True)),
        "o200k": byte_level(sequence([split(O200K), to_bytes()])),
        "smollm2": byte_level(sequence([pre_tokenizers.Digits(True), to_bytes(regex=True)])),
        "deepseek3": byte_level(sequence([*map(split, DEEPSEEK3), to_bytes()])),
        "deepseek_coder": byte_level(sequence([*map(split, DEEPSEEK_CODER),
                                               pre_tokenizers.Digits(True), to_bytes()])),
        "falcon": byte_level(sequence([pre_tokenizers.Punctuation("contiguous"),
                                       to_bytes(regex=True), pre_tokenizers.Digits(False),
                                       split("[0-9][0-9][0-9]")])),
        "nfkc_lower": byte_level(to_bytes(regex=True), n.Sequence([n.NFKC(), n.Lowercase()]),
                                 added=flagged(True)),
        "nfd": byte_level(sequence([pre_tokenizers.Digits(True), to_bytes(True, True)]), n.NFD(),
                          added=flagged(False)),
        "nfkd": byte_level(to_bytes(), n.NFKD()),
        "merged": byte_level(sequence([split("[aeiou]+", "merged_with_next"),
                                       split("[st]", "merged_with_previous", True),
                                       split(" ", "contiguous"), to_bytes(True)])),
        "llama2": characters(llama2, None, back(decoders.Strip(" ", 1, 0))),
        "llama2_flags": characters(llama2, None, back(decoders.Strip(" ", 1, 0)),
                                   added=flagged(False)),
        "mistral": characters(None, metaspace(prepend_scheme="first", split=False),
                              back(decoders.Strip(" ", 1, 0))),
        "gemma": characters(n.Replace(" ", "▁"),
                            pre_tokenizers.Split(" ", "merged_with_previous"), back()),
        "metaspace": characters(n.NFKC(), metaspace(prepend_scheme="always"), decoders.Metaspace(),
                                fallback=False, added=flagged(True)),
        "unknown": characters(n.Lowercase(), metaspace(prepend_scheme="never"),
                              decoders.Metaspace(prepend_scheme="never"), fallback=False,
                              fuse=False),
        "whole_words": characters(None, sequence([metaspace(prepend_scheme="first"),
                                                  pre_tokenizers.Digits(False)]), back(),
                                  ignore_merges=True),
        "words": byte_level(sequence([split(r"(?=\p{Lu})", "contiguous"), split(r"\w+|[^\w\s]+"),
                                      split(r"\b[st]|\W+|[[:word:]]\B"), to_bytes(True)]),
                            added=[AddedToken("\n", lstrip=True, rstrip=True)]),
        "composed": characters(n.NFC(), metaspace(prepend_scheme="never", split=False), back()),
    }
    made["llama3"].post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", made["llama3"].token_to_id("<s>"))])
    return made


def draw_ids(tokenizer, rng):
    size = tokenizer.get_vocab_size()
    return [rng.randrange(size) for _ in range(rng.randrange(1, 12))]


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    cases, rng = {"texts": TEXTS, "kinds": {}}, random.Random(1)
    for name, tokenizer in kinds().items():
        tree = json.loads(tokenizer.to_str())
        (folder / f"{name}.json").write_text(
            json.dumps(tree, ensure_ascii=False, separators=(",", ":")) + "\n")
        tokenizer = Tokenizer.from_file(str(folder / f"{name}.json"))
        ids = [tokenizer.encode(t, add_special_tokens=False).ids for t in TEXTS]
        drawn = []
        while len(drawn) < 12:
            some = draw_ids(tokenizer, rng)
            text = tokenizer.decode(some, skip_special_tokens=False)
            if "\ufffd" not in text and "\0" not in text:
                drawn.append({"ids": some, "with": text,
                              "without": tokenizer.decode(some, skip_special_tokens=True)})
        cases["kinds"][name] = {"ids": ids, "back": [tokenizer.decode(i) for i in ids],
                                "drawn": drawn}
    (folder / "cases.json").write_text(
        json.dumps(cases, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
