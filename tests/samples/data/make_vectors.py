"""Writes tokenizer-vectors.json beside this file: what Hugging Face `tokenizers` makes of texts in many scripts.

    RAMET_DATA=... python tests/samples/data/make_vectors.py

Needs the package `tokenizers` and RAMET_DATA's vocabularies. Random texts hold code points assigned in Unicode 8 or before
only: the peer's tables of punctuation and control characters end there, Ramet's (ICU) do not.
"""

import json
import os
import random
from pathlib import Path

from tokenizers import BertWordPieceTokenizer, ByteLevelBPETokenizer

TEXTS = [
    "", " ", "\n\n", "Hello, World!", "The quick brown fox jumped over the lazy dog's back.", "don't can't we'll I'm you've they'd it's they're",
    "DON'T CAN'T", "3.14159 1,000,000 10% $5.00 #1 a+b=c", "naïve café résumé ÀÉÎÕÜ Ångström", "cafe\u0301 n\u0303 o\u0308\u0304",
    "İstanbul ıI ŞşĞğ", "Straße ẞ ﬁ ﬂ Ǆ ǅ ǆ", "ΑΣΦΑΛΗΣ Ὀδυσσεύς ἄνθρωπος ς σ", "Привет, мир! Ёлка Йод", "日本語のテキスト、漢字とカタカナ。", "北京是中国的首都。 2008年",
    "繁體中文測試 豈 更 車", "한국어 텍스트 가각힣", "\u1100\u1161\u11a8 jamo", "שלום עולם שָׁלוֹם", "مرحبا بالعالم العَرَبِيَّة ١٢٣", "हिन्दी में पाठ नमस्ते क़", "ภาษาไทยทดสอบ", "தமிழ் உரை",
    "Tiếng Việt có dấu", "😀 emoji 👨‍👩‍👧‍👦 family 🇫🇷 flag 👍🏽", "zero\u200bwidth\u200djoin soft\u00adhyphen \ufeffbom", "a\u0000b\u0001c\u007fd\u0085e", "tab\tnew\nline\rreturn\x0bvt\x0cff", "nbsp\u00a0em\u2003ideo\u3000line\u2028para\u2029end",
    "\ufffd replaced \ufffd", "private \ue000\uf8ff use", "[CLS] a [MASK] b [SEP]", "x[MASK]y [mask] [MASK [UNK]. [PAD]", "<|endoftext|> not here", "under_score-dash—em–en…ellipsis", "“quotes” ‘single’ «guillemets» „low“", "`^~|<>=+$ £€¥ ©®™ °±×÷",
    "\u037e greek question \u1fef \u1ffd \u00b4", "a  b   c    d", "  leading and trailing  ", "line one\n\n  line two\n \n", "supercalifragilisticexpialidocious", "a" * 99, "a" * 100, "a" * 101, "é" * 100 + " " + "é" * 101, "1" * 150,
    "https://www.example.com/path?query=1&b=2#frag", "user@example.org", "def f(x):\n    return x**2  # comment\n", "{\"key\": [1, 2.5e-3, null]}", "ℌ ℝ ½ ² ① Ⅳ ㎏ ﷺ", "𝒜𝓁𝓅𝒽𝒶 𐐀𐐨 𠀀𪜀 🄰", "e\u0327\u0301 \u0344 \u0958 \u09dc", "a\u20dd b\u0488 c\u302e\u302f",
    "\u302e\u302fab \U0001d165\U0001d16d", "Mr. O'Neill's 'quoted' ''double''", "'s 't 're 've 'm 'll 'd 'S 'x", "it''s  's\n's", "ſ K Å Ω", "ß\u00adß \u2060\u2061", "\u180e mongol \u1680 ogham", "１２３ ＡＢＣ ａｂｃ ｶﾀｶﾅ", "㐀㐁 鿕 龥 豈 丽", "ñandú Ñ", "a\u0300\u0301\u0302\u0303", "\u0300start mark",
    "x\u0301\u0323 x\u0323\u0301", "\r\n\r\nwindows\r\n", "\t\t tabs", "a.b,c;d:e!f?g", "...---...", "$$$", "½½½", "x²+y²=z²", "中a国b", "aあb漢c", "ⓐ ⒜ ª º", "Zürich–Genève", "ŁÓDŹ łódź Øre Đ đ", "Œuvre œ æ Æ", "ǰ ΐ ΰ և ẖ", "\U000e0001tag\U000e007f",
]


def random_texts(count):
    source = random.Random(20240917)
    ranges = [(0x20, 0x7E), (0x20, 0x7E), (0xA0, 0x17F), (0x370, 0x3FF), (0x400, 0x4FF), (0x5D0, 0x5EA), (0x620, 0x64A),
              (0x904, 0x939), (0x300, 0x345), (0x1E00, 0x1EFF), (0x1F00, 0x1F15), (0x2010, 0x2027), (0x2190, 0x21FF),
              (0x3041, 0x30FA), (0x4E00, 0x9FCC), (0xAC00, 0xD7A3), (0xFF01, 0xFF5E), (0x1F300, 0x1F5FF), (9, 13)]
    for _ in range(count):
        text = ""
        for _ in range(source.randint(1, 12)):
            low, high = source.choice(ranges)
            text += "".join(chr(source.randint(low, high)) for _ in range(source.randint(1, 5)))
            if source.random() < 0.4:
                text += " "
        yield text


def main():
    vocab = Path(os.environ["RAMET_DATA"]) / "vocab"
    peers = {
        "uncased": BertWordPieceTokenizer(str(vocab / "bert-base-uncased.txt"), lowercase=True),
        "cased": BertWordPieceTokenizer(str(vocab / "bert-base-chinese.txt"), lowercase=False),
        "gpt2": ByteLevelBPETokenizer(str(vocab / "gpt2-encoder.json"), str(vocab / "gpt2-merges.bpe")),
    }
    peers["gpt2"].add_special_tokens(["<|endoftext|>"])
    rows = []
    for text in [*TEXTS, *random_texts(200)]:
        row = {"text": text}
        for name, peer in peers.items():
            encoding = peer.encode(text, add_special_tokens=False)
            row[name] = [[i, *o] for i, o in zip(encoding.ids, encoding.offsets)]
        rows.append(json.dumps(row, separators=(",", ":")))
    (Path(__file__).parent / "tokenizer-vectors.json").write_text("[\n" + ",\n".join(rows) + "\n]\n")


main()
