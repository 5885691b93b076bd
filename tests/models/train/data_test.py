"""Lexicon, split, vocabularies, batches and error rates of models/train, without PyTorch."""

import random
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, sys.argv.pop(1))

import data  # noqa: E402
import scoring  # noqa: E402


def lexicon_file(text: str) -> Path:
    file = tempfile.NamedTemporaryFile("w", suffix=".txt", delete=False, encoding="utf-8")
    with file:
        file.write(text)
    return Path(file.name)


def syllables(count: int, seed: int) -> str:
    """Words of a language that is spelled as it is said, in two columns."""
    rng = random.Random(seed)
    lines = set()
    while len(lines) < count:
        parts = [(rng.choice("ptkmnsl"), rng.choice("aeiou")) for _ in range(rng.randint(1, 4))]
        word = "".join(c + v for c, v in parts)
        stressed = rng.randrange(len(parts))
        lines.add(word + "\t" + " ".join(
            f"{c.upper()} {v.upper()}{int(i == stressed)}" for i, (c, v) in enumerate(parts)))
    return "\n".join(sorted(lines)) + "\n"


class LexiconTest(unittest.TestCase):
    def read(self, text: str) -> list[tuple[str, data.Tokens]]:
        path = lexicon_file(text)
        self.addCleanup(path.unlink)
        return data.read_lexicon(path)

    def test_reads_two_columns_and_cmudict(self) -> None:
        self.assertEqual(self.read("Éa\tE A\n\nbow B OW1 # weapon\nbow(2) B AW1\nbow B OW1\na# X\n"),
                         [("éa", ("E", "A")), ("bow", ("B", "OW1")), ("bow", ("B", "AW1")),
                          ("a#", ("X",))])

    def test_word_without_phonemes_is_named(self) -> None:
        with self.assertRaisesRegex(SystemExit, r":2: 'b' has no phonemes"):
            self.read("a X\nb\n")

    def test_nothing_in_it(self) -> None:
        with self.assertRaisesRegex(SystemExit, "no entry"):
            self.read("\n# only a comment\n".replace("# only", " # only"))


class SplitTest(unittest.TestCase):
    def setUp(self) -> None:
        self.path = lexicon_file(syllables(3000, 1))
        self.addCleanup(self.path.unlink)

    def test_never_moves_a_word(self) -> None:
        # The published figures hold for these parts only.
        expected = {"served": "dev", "aaker": "test", "hello": "train", "beam": "train", "yellow": "test"}
        self.assertEqual({word: data.part_of("g2p", tuple(word)) for word in expected}, expected)

    def test_parts_are_disjoint_and_complete(self) -> None:
        for task in data.TASKS:
            parts = data.split(task, self.path)
            found = [(s, t) for part in parts.values() for s, said in part.items() for t in said]
            self.assertEqual(len(found), len(set(found)))
            self.assertEqual(len(found), len(data.read_lexicon(self.path)))
            sources = [s for part in parts.values() for s in part]
            self.assertEqual(len(sources), len(set(sources)))
            self.assertLess(abs(len(parts["test"]) / len(sources) - 0.08), 0.03)

    def test_small_lexicon_is_refused(self) -> None:
        path = lexicon_file("a X\nb Y\n")
        self.addCleanup(path.unlink)
        with self.assertRaisesRegex(SystemExit, "part; a lexicon needs"):
            data.split("g2p", path)


class BatchesTest(unittest.TestCase):
    def setUp(self) -> None:
        path = lexicon_file(syllables(500, 2))
        self.addCleanup(path.unlink)
        self.train = data.split("g2p", path)["train"]
        self.codec = data.Codec(data.Vocabularies.of(self.train))

    def test_every_pair_once_at_its_exact_length(self) -> None:
        seen = []
        for batch in data.batches(self.train, self.codec, 16, random.Random(1), unknown_rate=0):
            self.assertLessEqual(len(batch.source), 16)
            self.assertEqual(len({len(row) for row in batch.source}), 1)
            for source, inputs, labels in zip(*batch):
                ids = labels[:labels.index(self.codec.end)]
                self.assertEqual(inputs[:len(ids) + 1], [self.codec.begin, *ids])
                self.assertEqual(set(labels[len(ids) + 1:]) - {data.IGNORE}, set())
                self.assertEqual(len(inputs), len(labels))
                seen.append((tuple(source), tuple(ids)))
        expected = [(tuple(self.codec.source_ids(s)), tuple(self.codec.target_ids(t)))
                    for s, targets in self.train.items() for t in targets]
        self.assertEqual(sorted(seen), sorted(expected))

    def test_factors_share_rows_by_base_and_by_mark(self) -> None:
        vocabularies = data.Vocabularies([data.UNKNOWN, "a"],
                                         [data.BEGIN, data.END, "A0", "A1", "K", "U1"])
        base, mark, rows = vocabularies.factors()
        self.assertEqual(base[2], base[3])
        self.assertEqual(mark[3], mark[5])
        self.assertEqual(mark[4], mark[0])
        self.assertEqual(len({*base}), 5)  # begin, end, A, K, U
        self.assertEqual({*base, *mark}, set(range(rows)))


class ScoringTest(unittest.TestCase):
    def test_distance_is_the_shortest_edit(self) -> None:
        def slow(a: data.Tokens, b: data.Tokens) -> int:
            if not a or not b:
                return len(a) + len(b)
            return min(slow(a[1:], b) + 1, slow(a, b[1:]) + 1, slow(a[1:], b[1:]) + (a[0] != b[0]))

        rng = random.Random(3)
        for _ in range(200):
            a, b = (tuple(rng.choices("XYZ", k=rng.randint(0, 5))) for _ in range(2))
            self.assertEqual(scoring.distance(a, b), slow(a, b))

    def test_counts(self) -> None:
        marked, unmarked = scoring.Tally(marks=True), scoring.Tally(marks=False)
        for tally in (marked, unmarked):
            tally.add([("B", "OW0"), ("B", "AW1")], [("B", "OW1"), ("B", "AW1")])
            tally.add([("K", "X", "T")], [("K", "AE1", "T", "S")])
        self.assertEqual((marked.wrong, marked.wrong_any), (2, 1))
        self.assertEqual((marked.errors, marked.tokens), (3, 6))
        self.assertEqual((unmarked.wrong, unmarked.wrong_any, unmarked.errors), (1, 1, 2))

    def test_only_the_first_five_count(self) -> None:
        tally = scoring.Tally(marks=True)
        tally.add([("X",)] * 5 + [("Y",)], [("Y",)])
        self.assertEqual(tally.wrong_any, 1)


if __name__ == "__main__":
    unittest.main()
