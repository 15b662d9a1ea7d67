# tokenizer_values.py -- writes small tokenizer.json files to tests/data/tokenizers, and the results of Hugging Face's
# tokenizers for some texts to tokenizer_values.lua
#
#   python3 tests/data/tokenizer_values.py        in the repository's root (tokenizers)
import json

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                        trainers)

folder = "tests/data/tokenizers/"
corpus = """The quick brown fox jumps over the lazy dog. It's what they've said, isn't it? We'll see; I'm sure.
In 1492 Columbus sailed the ocean blue; in 2024 there were 12345678 stars. The end of the tensor is the start of
another tensor, and the gradient of the loss is what the network learns from. Ünïcödé straße, naïve café, Ελληνικά,
русский текст, 日本語のテキスト, 한국어, emoji 🙂🙃 👩‍👩‍👧 and math ∑∫≤. def f(x):\n    return x + 1
\n\tif x: print("hello world")\n
""" * 3
texts = [
    "", " ", "Hello world", "hello  world   again", "It's what they've said, isn't it? WE'LL SEE, I'M",
    "tabs\tand\nnew\n\nlines\r\n\r\n  indented\n", "trailing spaces   ", "   leading", "12345678 and 3.14, x1y22z333",
    "Ünïcödé straße Ελληνικά русский 日本語のテキスト 한국어", "🙂🙃 👩‍👩‍👧 🇩🇪 e\u0301 \u00a0nbsp\u3000wide", "∑∫≤ ½ ² Ⅷ ٣ ௧",
    "<|endoftext|>The<|endoftext|> quick <pad>fox", "a<mask>b <mask> c", "def f(x):\n    return x + 1  # ''' \"",
    "word" * 60, "\u2028line\u2029par\u0085nel\u200bzero", "https://example.org/a?b=c&d=%20#e", "don't DON'T 's 'S 'll",
    "The quick brown fox jumps over the lazy dog.", "\ufeffbom \ud7ff\ue000 \U0010fffd",
]


def finish(name, tokenizer):
    data = json.loads(tokenizer.to_str())
    tokenizer = Tokenizer.from_str(json.dumps(data))
    with open(folder + name + ".json", "w") as f:
        f.write(json.dumps(data, ensure_ascii=True, separators=(",", ":")).replace('"merges":', '\n"merges":') + "\n")
    return tokenizer


def gpt2():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    t.train_from_iterator([corpus], trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<|endoftext|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    t.add_tokens([AddedToken("<pad>", single_word=True, rstrip=True, normalized=False)])
    return finish("gpt2", t)


def llama3():
    pattern = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
               r"\s*[\r\n]+|\s+(?!\S)|\s+")
    t = Tokenizer(models.BPE(ignore_merges=True))
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator([corpus], trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<|begin_of_text|>", "<|endoftext|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", 0)])])
    return finish("llama3", t)


def llama2():
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    specials = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)]
    t.train_from_iterator([corpus[:400]], trainers.BpeTrainer(
        vocab_size=500, special_tokens=specials, show_progress=False, max_token_length=8))
    data = json.loads(t.to_str())
    data["added_tokens"] = data["added_tokens"][:3]
    t = Tokenizer.from_str(json.dumps(data))
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                   decoders.Strip(" ", 1, 0)])
    t.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    return finish("llama2", t)


def metaspace():
    t = Tokenizer(models.BPE(unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                              pre_tokenizers.Metaspace(prepend_scheme="first")])
    t.decoder = decoders.Metaspace(prepend_scheme="first")
    t.train_from_iterator([corpus], trainers.BpeTrainer(vocab_size=300, special_tokens=["<unk>", "<s>"],
                                                       show_progress=False))
    return finish("metaspace", t)


def roberta():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator([corpus], trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<s>", "</s>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0))
    return finish("roberta", t)


def removed():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
                                   r"(?i:'s|'t|'re)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"),
                             "removed", invert=True),
        pre_tokenizers.Split("-", "isolated"), pre_tokenizers.Digits(),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator([corpus], trainers.BpeTrainer(
        vocab_size=300, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return finish("removed", t)


def lua(text):
    plain = [32 <= b < 127 and chr(b) not in '"\\' for b in text.encode()]
    return '"' + "".join(chr(b) if good else "\\%03d" % b for b, good in zip(text.encode(), plain)) + '"'


def wrapped(prefix, items):
    lines, line = [], prefix
    for item in items:
        if len(line) + len(item) > 110:
            lines.append(line.rstrip())
            line = "     "
        line += item
    return "\n".join(lines + [line])


with open("tests/data/tokenizer_values.lua", "w") as f:
    f.write("-- tokenizer_values.lua -- texts, their ids and what these are decoded to; by tokenizer_values.py\n")
    f.write("return {\n  texts = {\n")
    for text in texts:
        quoted = lua(text)
        pieces = []
        while len(quoted) > 100:
            cut = 100
            while "\\" in quoted[cut - 4:cut]:
                cut -= 1
            pieces.append(quoted[:cut] + '"')
            quoted = '"' + quoted[cut:]
        f.write("    " + " ..\n      ".join(pieces + [quoted]) + ",\n")
    f.write("  },\n")
    for make in (gpt2, llama3, llama2, metaspace, roberta, removed):
        tokenizer = make()
        f.write("  %s = {\n" % make.__name__)
        for text in texts:
            ids = tokenizer.encode(text).ids
            back = tokenizer.decode(ids)
            f.write(wrapped("    {ids = {", ["%d, " % i for i in ids]) + "}")
            parts = [lua(back[i:i + 6]) for i in range(0, max(len(back), 1), 6)]
            f.write(",\n      back = " + ("true" if back == text else " ..\n      ".join(parts)) + "},\n")
        f.write("  },\n")
    words = Tokenizer(models.BPE())
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.train_from_iterator([corpus], trainers.BpeTrainer(
        vocab_size=380, show_progress=False, special_tokens=["<s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    merges = json.loads(words.to_str())["model"]["merges"]
    parts = ["    " + lua(corpus[i:i + 12]) + ",\n" for i in range(0, len(corpus), 12)]
    f.write("  corpus = {\n" + "".join(parts) + "  },\n")
    f.write(wrapped("  merges = {", [lua(" ".join(m)) + ", " for m in merges]) + "},\n}\n")
