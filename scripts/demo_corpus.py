#!/usr/bin/env python3
"""Makes the demo's English corpus from Debian packages, without installing them.

Each source is fetched with apt-get, unpacked with dpkg-deb, and written as UTF-8 text in BERT's form: a sentence a
line, an empty line after each document.

    OUT/NAME.txt         the text
    OUT/licences/NAME    what the package says of its copyright
    OUT/SOURCES.md       the sources with versions, licences and sizes

Packages are kept in CACHE, so a second run needs no network; when nothing changed it does nothing at all.

usage: scripts/demo_corpus.py [--out DIR] [--cache DIR] [--sources NAME,...] [--list]
"""
import argparse
import collections
import gzip
import hashlib
import html.parser
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
FEWEST_LETTERS = 0.7  # of a sentence's characters; below are tables, formulas and markup

Source = collections.namedtuple("Source", "name package title licence read")


class CannotFetch(Exception):
    pass


# ---- From text to sentences ----

ABBREVIATIONS = ("e.g i.e etc cf vs esp fr viz Mr Mrs Dr St Sir Gen Col Capt Rev Hon Prof Sr Jr No Fig fig Lat Gr Eng "
                 "Eccl Ps Matt Gen Shak Chron Sam Kings approx inc Inc Ltd Co Corp Jan Feb Mar Apr Jun Jul Aug Sept Oct "
                 "Nov Dec").split()
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]*[A-Z0-9])")
ENDS_IN_ABBREVIATION = re.compile(r"(?:\b(?:" + "|".join(map(re.escape, ABBREVIATIONS)) + r"|[A-Z]|[a-z]))\.$")


def sentences(text):
    """Splits running text where a sentence ends; yields those that read like English."""
    text = re.sub(r"\s+", " ", text).strip()
    pieces, begin = [], 0
    for match in SENTENCE_END.finditer(text):
        if not ENDS_IN_ABBREVIATION.search(text[begin:match.start()]):
            pieces.append(text[begin:match.end()].strip())
            begin = match.end()
    pieces.append(text[begin:].strip())
    for piece in pieces:
        letters = sum(c.isalpha() or c == " " for c in piece)
        if len(piece.split()) >= 4 and letters >= FEWEST_LETTERS * len(piece):
            yield piece


def paragraphs_of(text):
    return [paragraph for paragraph in re.split(r"\n\s*\n", text) if paragraph.strip()]


def grouped(documents, lines):
    """Joins short neighbouring documents until each has so many lines: a pair of sentences needs two."""
    group = []
    for document in documents:
        group += document
        if len(group) >= lines:
            yield group
            group = []
    if group:
        yield group


# ---- Readers: each takes the unpacked package and yields documents, lists of sentences ----

def read_king_james(root):
    """bible.data: a table of windows, each in the format of compress(1) without its first three bytes."""
    data = (root / "usr/lib/bible.data").read_bytes()
    windows = struct.unpack_from(">I", data, 0x58)[0]
    bounds = list(struct.unpack_from(f">{windows}I", data, 0x5C)) + [len(data)]
    text = b""
    for begin, end in zip(bounds, bounds[1:]):
        text += subprocess.run(["gzip", "-dc"], input=b"\x1f\x9d\x90" + data[begin:end], capture_output=True,
                               check=False).stdout  # gzip warns of the zeros that pad each window
    chapter, verses = None, []
    for line in text.decode("latin-1").splitlines():
        match = re.match(r"(\w+?)(\d+):(\d+) (.*)", line)
        if not match:
            continue
        if (match[1], match[2]) != chapter:
            if verses:
                yield verses
            chapter, verses = (match[1], match[2]), []
        verses += sentences(match[4])
    yield verses


def read_world_english(root):
    """SWORD's zText: a table of (offset, size, size unpacked) and zlib blocks of OSIS markup."""
    folder = next((root / "usr/share/sword/modules/texts/ztext").iterdir())
    for testament in ("ot", "nt"):
        table = (folder / f"{testament}.bzs").read_bytes()
        packed = (folder / f"{testament}.bzz").read_bytes()
        for offset, size, _ in struct.iter_unpack("<3I", table):
            if size == 0:
                continue
            book = zlib.decompress(packed[offset:offset + size]).decode("utf-8", "replace")
            for chapter in re.split(r"<chapter [^>]*sID=", book)[1:]:
                chapter = re.sub(r"<note.*?</note>|<title.*?</title>", " ", chapter[chapter.index(">") + 1:], flags=re.S)
                chapter = re.sub(r"<(div|l|lb|lg|p)\b[^>]*>", " ", chapter)
                yield list(sentences(plain_marks(html.unescape(re.sub(r"<[^>]*>", "", chapter)))))


def read_wordnet(root):
    def synsets():
        for part in ("noun", "verb", "adj", "adv"):
            for line in (root / f"usr/share/wordnet/data.{part}").read_text("utf-8").splitlines():
                if line.startswith("  ") or " | " not in line:
                    continue
                fields, gloss = line.split(" | ", 1)
                fields = fields.split()
                words = [re.sub(r"\(.*?\)", "", word).replace("_", " ") for word in fields[4:4 + 2 * int(fields[3], 16):2]]
                examples = re.findall(r'"([^"]+)"', gloss)
                meaning = re.sub(r'[;:]?\s*"[^"]*"(?:\s*-+\s*[^;"]*)?', "", gloss).strip(" ;")
                article = "to " if part == "verb" else ""
                yield ([f"{article}{', '.join(words)}: {meaning}."] if meaning else []) + [
                    example for example in examples if len(example.split()) >= 4]
    yield from grouped(synsets(), 8)


def dictionary_text(root, name):
    with gzip.open(root / f"usr/share/dictd/{name}.dict.dz") as file:
        return file.read().decode("utf-8", "replace")


def plain_marks(text):
    for mark, plain in (("“", '"'), ("”", '"'), ("‘", "'"), ("’", "'"), ("—", " - "), ("–", "-"), ("…", "...")):
        text = text.replace(mark, plain)
    return text


def entries_of(text):
    """Entries of a dictionary whose headwords begin lines and whose texts are indented."""
    lines = []
    for line in text.splitlines():
        if line[:1].strip() and lines and not lines[-1].strip():
            yield lines
            lines = []
        lines.append(line)
    yield lines


def read_gcide(root):
    """GNU's Collaborative International Dictionary of English: definitions, notes and quotations."""
    def entry_sentences(lines):
        text = "\n".join(lines)
        header = re.match(r"([^\\\n]+?)\s*\\", text)
        if not header:
            return []
        word = header[1].strip()
        text = re.sub(r"\[[^\]\[]*(?:\[[^\]\[]*\][^\]\[]*)*\]", "", text)  # etymologies, sources
        text = text.split("\n", 1)[1] if "\n" in text else ""
        found = []
        for paragraph in paragraphs_of(text):
            if re.match(r"\s*Syn:", paragraph):
                continue
            quotation = re.match(r" {9}", paragraph) is not None
            paragraph = re.sub(r"\s+--\s*[A-Z][\w.' ()]*\.?\s*$", "", paragraph)  # who said so
            paragraph = re.sub(r"^\s*(Note:\s*)?(\d+\.|\([a-z]\))?\s*(\([A-Z][\w. &,]*\.?\)\s*)?", "", paragraph)
            paragraph = re.sub(r"\s*--\s*[A-Z]\w+\.", "", paragraph)
            paragraph = re.sub(r"[{}_]|\([a-z]\)", "", paragraph)
            parts = list(sentences(paragraph))
            if parts and not quotation and not found:
                parts[0] = f"{word}: {parts[0]}"
            found += parts
        return found
    text = dictionary_text(root, "gcide")
    yield from grouped((entry_sentences(entry) for entry in entries_of(text)), 8)


def read_indented_dictionary(name):
    """FOLDOC and the Jargon File: the headword, then indented paragraphs with {links} and <categories>."""
    def read(root):
        for entry in entries_of(dictionary_text(root, name)):
            body = "\n".join(line for line in entry[1:] if not line.strip() or line.startswith("   "))
            found = []
            for paragraph in paragraphs_of(plain_marks(body)):
                paragraph = re.sub(r"<[\w, /-]+>|\[[^\]]*\]|\{\((?:http|ftp)[^}]*\}|\(\d{4}-\d\d-\d\d\)", "", paragraph)
                found += sentences(re.sub(r"[{}_]", "", paragraph))
            if found:
                yield [f"{entry[0].strip()}: {found[0]}"] + found[1:]
    return lambda root: grouped(read(root), 8)


def read_devil(root):
    paragraphs = [list(sentences(plain_marks(paragraph).replace("_", "")))
                  for paragraph in paragraphs_of(dictionary_text(root, "devil"))]
    yield from grouped(paragraphs, 8)


class ParagraphReader(html.parser.HTMLParser):
    """Collects the text of <p> and <dd>, without preformatted blocks and navigation."""
    SKIPPED = {"pre", "script", "style", "table", "nav", "sup", "title"}

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.paragraphs, self.text, self.depth = [], None, 0

    def handle_starttag(self, tag, attrs):
        if tag in self.SKIPPED:
            self.depth += 1
        elif tag in ("p", "dd"):
            self.finish()
            self.text = []

    def handle_endtag(self, tag):
        if tag in self.SKIPPED:
            self.depth = max(0, self.depth - 1)
        elif tag in ("p", "dd"):
            self.finish()

    def handle_data(self, data):
        if self.text is not None and self.depth == 0:
            self.text.append(data)

    def finish(self):
        if self.text:
            self.paragraphs.append("".join(self.text))
        self.text = None


def read_pages(pattern):
    """A folder of HTML pages; each is a document."""
    def read(root):
        for path in sorted(root.glob(pattern)):
            if path.is_symlink():
                continue
            reader = ParagraphReader()
            reader.feed(path.read_text("utf-8", "replace"))
            reader.finish()
            yield [sentence for paragraph in reader.paragraphs for sentence in sentences(plain_marks(paragraph))]
    return read


SOURCES = [
    Source("king-james", "bible-kjv-text", "The Bible, King James Version", "public domain", read_king_james),
    Source("world-english", "sword-text-web", "The World English Bible", "public domain", read_world_english),
    Source("gcide", "dict-gcide", "The GNU Collaborative International Dictionary of English", "GPL-2+", read_gcide),
    Source("wordnet", "wordnet-base", "WordNet 3.0, glosses and examples", "WordNet 3.0 licence (free)", read_wordnet),
    Source("foldoc", "dict-foldoc", "The Free On-line Dictionary of Computing", "GFDL-1.1+",
           read_indented_dictionary("foldoc")),
    Source("jargon", "dict-jargon", "The Jargon File 4.4.7", "public domain", read_indented_dictionary("jargon")),
    Source("devil", "dict-devil", "The Devil's Dictionary, by Ambrose Bierce", "public domain", read_devil),
    Source("debian-reference", "debian-reference-en", "Debian Reference", "GPL-2+",
           read_pages("usr/share/debian-reference/*.en.html")),
    Source("postgresql", "postgresql-doc-15", "PostgreSQL 15 documentation", "PostgreSQL licence (free)",
           read_pages("usr/share/doc/postgresql-doc-15/html/*.html")),
    Source("git", "git-doc", "Git documentation", "GPL-2", read_pages("usr/share/doc/git-doc/*.html")),
]


# ---- Fetching ----

def run_quietly(command, folder=None):
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive", LC_ALL="C")
    return subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          errors="replace", check=False)


def cached_package(package, cache):
    found = sorted(cache.glob(f"{package}_*.deb"), key=lambda path: path.stat().st_mtime)
    return found[-1] if found else None


def fetch(packages, cache):
    """Downloads what the cache lacks, through a folder of its own so that no half file is ever kept."""
    missing = [package for package in packages if not cached_package(package, cache)]
    if not missing:
        return
    print(f"fetching {len(missing)} packages: {' '.join(missing)}", flush=True)
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        command = ["apt-get", "-qq", "-o", "Acquire::Retries=3", "download", *missing]
        if shutil.which("apt-get") is None:
            raise CannotFetch("apt-get is not here; the demo's text comes from Debian packages")
        got = run_quietly(command, folder)
        if got.returncode != 0:
            # The lists may be empty or old, as they are in a fresh container.
            root = [] if os.geteuid() == 0 else ["sudo", "-n"] if shutil.which("sudo") else None
            if root is not None:
                run_quietly([*root, "apt-get", "-qq", "update"])
            got = run_quietly(command, folder)
        for path in pathlib.Path(folder).glob("*.deb"):
            path.rename(cache / path.name)
        still = [package for package in missing if not cached_package(package, cache)]
        if still:
            reason = "\n".join("  " + line for line in (got.stderr or got.stdout).strip().splitlines()[-5:])
            raise CannotFetch(f"no package source gave {', '.join(still)}. apt-get said:\n{reason}\n"
                              f"Connect to a Debian mirror and run again, or put the .deb files into {cache}")


def version_of(path):
    return run_quietly(["dpkg-deb", "-f", str(path), "Version"]).stdout.strip()


# ---- Writing ----

def write_source(source, package_path, out):
    """Extracts one source; returns the bytes of text."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        unpacked = run_quietly(["dpkg-deb", "-x", str(package_path), folder])
        if unpacked.returncode != 0:
            raise CannotFetch(f"{package_path} is damaged ({unpacked.stderr.strip()}). Remove it and run again")
        text = "".join("\n".join(document) + "\n\n" for document in source.read(root) if len(document) >= 2).encode()
        (out / f"{source.name}.txt").write_bytes(text)
        for name in ("copyright", "copyright.gz"):
            path = root / "usr/share/doc" / source.package / name
            if path.exists():
                said = path.read_bytes()
                (out / "licences" / source.name).write_bytes(gzip.decompress(said) if name.endswith(".gz") else said)
    return len(text)


def build(out, cache, sources):
    fetch([source.package for source in sources], cache)
    packages = {source.name: cached_package(source.package, cache) for source in sources}
    fingerprint = hashlib.sha256(pathlib.Path(__file__).read_bytes() +
                                 "".join(path.name for path in packages.values()).encode()).hexdigest()
    stamp = out / "stamp"
    if stamp.exists() and stamp.read_text() == fingerprint:
        return
    new = out.with_name(out.name + ".new")
    shutil.rmtree(new, ignore_errors=True)
    (new / "licences").mkdir(parents=True)
    rows = ["| text | package | licence | size |", "| --- | --- | --- | ---: |"]
    total = 0
    for source in sources:
        size = write_source(source, packages[source.name], new)
        total += size
        rows.append(f"| {source.title} | {source.package} {version_of(packages[source.name])} | {source.licence} | "
                    f"{size / 1e6:.2f} MB |")
        print(f"{source.title}: {size / 1e6:.2f} MB ({source.package}, {source.licence})", flush=True)
    rows.append(f"| all | | | {total / 1e6:.2f} MB |")
    (new / "SOURCES.md").write_text("\n".join(rows) + "\n")
    (new / "stamp").write_text(fingerprint)
    shutil.rmtree(out, ignore_errors=True)
    new.rename(out)
    print(f"{total / 1e6:.1f} MB of English in {out}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/demo/text")
    parser.add_argument("--cache", type=pathlib.Path, default=ROOT / ".cache/demo-packages")
    parser.add_argument("--sources", help="names of the texts to take, with commas between (default: all)")
    parser.add_argument("--list", action="store_true", help="print the sources and exit")
    options = parser.parse_args()
    if options.list:
        for source in SOURCES:
            print(f"{source.name}: {source.title} ({source.package}, {source.licence})")
        return 0
    names = options.sources.split(",") if options.sources else [source.name for source in SOURCES]
    sources = [source for source in SOURCES if source.name in names]
    if unknown := sorted(set(names) - {source.name for source in SOURCES}):
        parser.error(f"no source is called {', '.join(unknown)}; --list names them")
    try:
        build(options.out, options.cache, sources)
    except CannotFetch as error:
        print(f"demo_corpus: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
