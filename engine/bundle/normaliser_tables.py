#!/usr/bin/env python3
"""Writes normaliser_tables.inc: what normalisers and pre-tokenizers of Hugging Face's package `tokenizers` do with single
characters, asked of the package. Usage: normaliser_tables.py OUT
"""

import sys

from tokenizers import normalizers, pre_tokenizers

CHARACTERS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
CLEAN = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
CHINESE = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=True, strip_accents=False, lowercase=False)

STRIP = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)


def where(test):
    return {c for c in CHARACTERS if test(chr(c))}


def pieces(pre_tokenizer, character):
    return [text for text, _ in pre_tokenizer.pre_tokenize_str(f"a{character}a")]


def runs(found):
    """First and one past the last of each run."""
    return [c for c in range(0x110001) if (c in found) != (c - 1 in found)]


def lower_runs(lower):
    """(first, last, step, difference) of characters with lower case of one character."""
    left = sorted(c for c in CHARACTERS if len(lower(chr(c))) == 1 and lower(chr(c)) != chr(c))
    found = []
    while left:
        first = left[0]
        shift = ord(lower(chr(first))) - first
        best = [first]
        members = set(left)
        for step in (1, 2):
            run = [first]
            while run[-1] + step in members and ord(lower(chr(run[-1] + step))) - run[-1] - step == shift:
                run.append(run[-1] + step)
            best = max(best, run, key=len)
        step = best[1] - best[0] if len(best) > 1 else 1
        found += [first, best[-1], step, shift]
        left = [c for c in left if c not in set(best)]
    return found


def decompositions():
    """Character, count and characters of each canonical decomposition, without Hangul's."""
    nfd = normalizers.NFD()
    numbers = []
    for c in CHARACTERS:
        parts = nfd.normalize_str(chr(c))
        if parts != chr(c) and not 0xAC00 <= c <= 0xD7A3:
            numbers += [c, len(parts), *map(ord, parts)]
    return numbers


def write(out, kind, name, numbers):
    out.write(f"constexpr {kind} {name}[] = {{\n")
    line = "   "
    for number in numbers:
        if len(line) + len(f" {number},") > 100:
            out.write(line + "\n")
            line = "   "
        line += f" {number},"
    out.write(line + "\n};\n")


def main():
    lower = normalizers.Lowercase().normalize_str
    strip = normalizers.StripAccents().normalize_str
    bert = pre_tokenizers.BertPreTokenizer()
    white = pre_tokenizers.WhitespaceSplit()
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        out.write("// Written by normaliser_tables.py.\n")
        write(out, "uint32_t", "kAccents", runs(where(lambda c: strip(c) == "")))
        write(out, "uint32_t", "kBertAccents", runs(where(lambda c: STRIP.normalize_str(c) == "")))
        write(out, "uint32_t", "kUnclean", runs(where(lambda c: CLEAN.normalize_str(c) == "")))
        write(out, "uint32_t", "kBertSpaces", runs(where(lambda c: CLEAN.normalize_str(c) == " ")))
        write(out, "uint32_t", "kChinese", runs(where(lambda c: len(CHINESE.normalize_str(c)) == 3)))
        write(out, "uint32_t", "kWhiteSpaces", runs(where(lambda c: len(pieces(white, c)) == 2)))
        write(out, "uint32_t", "kPunctuation", runs(where(lambda c: len(pieces(bert, c)) == 3)))
        write(out, "int32_t", "kLowerRuns", lower_runs(lower))
        write(out, "uint32_t", "kDecompositions", decompositions())
        more = [c for c in CHARACTERS if len(lower(chr(c))) > 1]
        assert more == [0x130] and lower("\u0130") == "i\u0307", more


main()
