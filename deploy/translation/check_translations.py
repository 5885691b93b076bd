#!/usr/bin/env python3
"""Compares a server's translations with expected ones, such as Firefox's or Marian's of the same model.

    check_translations.py SERVER SOURCE TARGET SENTENCES EXPECTED

SERVER is the address of the HTTP API (http://localhost:8000), SOURCE and TARGET are languages; line N of the file EXPECTED
is the translation of line N of SENTENCES. Prints the lines that differ and how many are equal; exit code 1 if fewer than
--least are.
"""

import argparse
import json
import pathlib
import sys
import urllib.error
import urllib.request

BATCH = 256  # texts of a call


def translate(options, texts):
    body = {"q": texts, "source": options.source, "target": options.target}
    if options.api_key:
        body["api_key"] = options.api_key
    request = urllib.request.Request(f"{options.server.rstrip('/')}/translate", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=600) as answer:
            return json.load(answer)["translatedText"]
    except urllib.error.HTTPError as error:
        sys.exit(f"check_translations.py: HTTP status {error.code}: {error.read(1000).decode(errors='replace').strip()}")
    except OSError as error:
        sys.exit(f"check_translations.py: {options.server}: {getattr(error, 'reason', error)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("server", "source", "target"):
        parser.add_argument(name)
    parser.add_argument("sentences", type=pathlib.Path)
    parser.add_argument("expected", type=pathlib.Path)
    parser.add_argument("--least", type=float, default=0.97, help="share of equal lines; default: %(default)s")
    parser.add_argument("--api-key")
    options = parser.parse_args()
    sentences = options.sentences.read_text(encoding="utf-8").splitlines()
    expected = options.expected.read_text(encoding="utf-8").splitlines()
    if not sentences or len(sentences) != len(expected):
        sys.exit(f"check_translations.py: {len(sentences)} sentences and {len(expected)} translations")
    found = [text for first in range(0, len(sentences), BATCH)
             for text in translate(options, sentences[first : first + BATCH])]  # fmt: skip
    equal = 0
    for number, (sentence, ours, theirs) in enumerate(zip(sentences, found, expected), 1):
        equal += ours == theirs
        if ours != theirs:
            print(f"{number}: {sentence}\n  expected: {theirs}\n  is:       {ours}")
    print(f"{equal} of {len(sentences)} translations are equal")
    return 0 if equal >= options.least * len(sentences) else 1


if __name__ == "__main__":
    sys.exit(main())
