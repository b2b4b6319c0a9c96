"""The readers of scripts/demo_corpus.py, on small samples of each format; no network."""
import gzip
import importlib.util
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
spec = importlib.util.spec_from_file_location("demo_corpus", ROOT / "scripts" / "demo_corpus.py")
demo_corpus = importlib.util.module_from_spec(spec)
spec.loader.exec_module(demo_corpus)


class Sentences(unittest.TestCase):
    def split(self, text):
        return list(demo_corpus.sentences(text))

    def test_splits_where_a_sentence_ends(self):
        self.assertEqual(self.split("And God said,\n Let there be light. And there was light! Was it good?"),
                         ["And God said, Let there be light.", "And there was light!"])
        self.assertEqual(self.split('He said "Come here to me." Then all of them went home.'),
                         ['He said "Come here to me."', "Then all of them went home."])

    def test_keeps_abbreviations_whole(self):
        self.assertEqual(self.split("The work of Dr. Johnson is e.g. a dictionary of words."),
                         ["The work of Dr. Johnson is e.g. a dictionary of words."])

    def test_drops_what_is_no_prose(self):
        self.assertEqual(self.split("See below."), [])
        self.assertEqual(self.split("| 1 | 2 | 3 | 4 | 5 | 6 |"), [])


class Readers(unittest.TestCase):
    def read(self, reader, files):
        with tempfile.TemporaryDirectory() as folder:
            for name, contents in files.items():
                path = pathlib.Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(contents)
            return list(reader(pathlib.Path(folder)))

    def test_wordnet(self):
        line = b"00001740 03 n 02 big_cat 0 cat 0 001 ~ 00001930 n 0000 | a large animal of prey; \"the big cat slept all day\"\n"
        empty = {f"usr/share/wordnet/data.{part}": b"  1 licence\n" for part in ("verb", "adj", "adv")}
        self.assertEqual(self.read(demo_corpus.read_wordnet, {"usr/share/wordnet/data.noun": b"  1 licence\n" + line, **empty}),
                         [["big cat, cat: a large animal of prey.", "the big cat slept all day"]])

    def test_gcide(self):
        text = ('Addict \\Ad*dict"\\, v. t. [L. addictus, p. p. of {addicere}\n   to adjudge.]\n'
                "   1. To apply habitually; to devote; to habituate.\n      [1913 Webster]\n\n"
                "            They addict themselves to the {civil law}.\n" + " " * 50 + "--Evelyn.\n      [1913 Webster]\n\n"
                "   Syn: To devote; to give up to a thing.\n\n"
                "Next \\Next\\, a.\n   Nearest in place to the thing spoken of.\n")
        packed = {"usr/share/dictd/gcide.dict.dz": gzip.compress(text.encode())}
        self.assertEqual(self.read(demo_corpus.read_gcide, packed),
                         [["Addict: To apply habitually; to devote; to habituate.", "They addict themselves to the civil law.",
                           "Next: Nearest in place to the thing spoken of."]])

    def test_foldoc(self):
        text = ("admissible\n\n   <algorithm> A description of a {search algorithm} that is\n   guaranteed to end. It finds a "
                "best solution too.\n\n   (1999-07-19)\n\n")
        packed = {"usr/share/dictd/foldoc.dict.dz": gzip.compress(text.encode())}
        self.assertEqual(self.read(demo_corpus.read_indented_dictionary("foldoc"), packed),
                         [["admissible: A description of a search algorithm that is guaranteed to end.",
                           "It finds a best solution too."]])

    def test_world_english(self):
        book = ('<title>Genesis</title><chapter n="1" sID="Gen.1"/><w lemma="x">In</w> <w>the</w> beginning<note n="a">Or, at '
                'first</note> God made it.<lb/>And it was good &amp; fair.<chapter eID="Gen.1"/>').encode()
        packed = zlib.compress(book)
        folder = "usr/share/sword/modules/texts/ztext/web/"
        files = {folder + "ot.bzs": struct.pack("<3I", 0, len(packed), len(book)), folder + "ot.bzz": packed,
                 folder + "nt.bzs": b"", folder + "nt.bzz": b""}
        self.assertEqual(self.read(demo_corpus.read_world_english, files),
                         [["In the beginning God made it.", "And it was good & fair."]])

    def test_king_james(self):
        text = b"Holy Bible\nGe1:1 In the beginning God created the heaven.\nGe2:1 Thus the heavens were finished all.\n"
        window = compress(text)
        header = bytearray(0x5C + 4)
        struct.pack_into(">II", header, 0x58, 1, len(header))
        self.assertEqual(self.read(demo_corpus.read_king_james, {"usr/lib/bible.data": bytes(header) + window}),
                         [["In the beginning God created the heaven."], ["Thus the heavens were finished all."]])

    def test_pages(self):
        page = b"<title>T</title><p>The first of <b>these</b> paragraphs.<pre>int x;</pre><p>And this is a second one.</p><table><td>no"
        self.assertEqual(self.read(demo_corpus.read_pages("*.html"), {"a.html": page}),
                         [["The first of these paragraphs.", "And this is a second one."]])

    def test_short_documents_are_joined(self):
        self.assertEqual(list(demo_corpus.grouped([["a"], ["b"], ["c"], ["d"], ["e"]], 2)), [["a", "b"], ["c", "d"], ["e"]])


def compress(data):
    """As compress(1) with codes of nine bits and no repeats: enough for short texts. Without the magic bytes."""
    bits = "".join(format(byte, "09b")[::-1] for byte in data)
    assert len(data) < 250  # then codes would grow to ten bits
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[i:i + 8][::-1], 2) for i in range(0, len(bits), 8))


class Fetching(unittest.TestCase):
    def test_says_what_is_missing_when_no_source_answers(self):
        with tempfile.TemporaryDirectory() as folder:
            fake = pathlib.Path(folder) / "bin"
            fake.mkdir()
            for name in ("apt-get", "sudo"):
                (fake / name).write_text("#!/bin/sh\necho 'E: Unable to locate package' >&2\nexit 100\n")
                (fake / name).chmod(0o755)
            got = subprocess.run([sys.executable, str(ROOT / "scripts/demo_corpus.py"), "--out", folder + "/out", "--cache",
                                  folder + "/cache"], env={"PATH": f"{fake}:/usr/bin:/bin"}, capture_output=True, text=True,
                                 check=False)
            self.assertEqual(got.returncode, 1)
            self.assertIn("no package source gave bible-kjv-text", got.stderr)
            self.assertIn("E: Unable to locate package", got.stderr)
            self.assertIn("put the .deb files into", got.stderr)
            self.assertFalse((pathlib.Path(folder) / "out").exists())


if __name__ == "__main__":
    unittest.main()
