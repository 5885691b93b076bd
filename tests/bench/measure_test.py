"""bench/harness/measure.py: which side counts as what, and when a bar is reached."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

from harness.measure import OURS, Bar, Workload, measure  # noqa: E402


def rounds(*seconds):
    """A side that takes these times, one a round."""
    times = iter(seconds)
    return lambda: next(times)


class MeasureTest(unittest.TestCase):
    def test_sides_take_turns(self):
        calls = []
        sides = {name: lambda name=name: calls.append(name) or 1.0 for name in (OURS, "a", "b")}
        measure(Workload("w", sides, []), 2)
        self.assertEqual(calls, [OURS, "a", "b"] * 2)

    def test_the_fastest_peer_counts_and_limits_do_not(self):
        outcome = measure(Workload("w", {OURS: rounds(2, 2, 9), "slow": rounds(8, 8, 8),
                                         "fast": rounds(3, 1, 3), "limit": rounds(1, 1, 1)}, [],
                                   limits=("limit",)), 3)
        self.assertEqual(outcome.peers(), ["slow", "fast"])
        self.assertEqual(outcome.ratio(), 1.5)  # medians: 3 over 2
        self.assertEqual(outcome.ratio(("limit",)), 0.5)
        self.assertEqual(outcome.noise(), 3.5)  # ours: (9 - 2) / 2

    def test_bars(self):
        def reached(bar, own=2.0):
            workload = Workload("w", {OURS: lambda: own, "peer": lambda: 4.0, "limit": lambda: 1.9},
                                [bar], limits=("limit",))
            verdicts = measure(workload, 1).verdicts()
            return verdicts[0].reached if verdicts else None
        self.assertTrue(reached(Bar(2.0)))
        self.assertFalse(reached(Bar(2.01)))
        self.assertTrue(reached(Bar(1 / 1.08, ("limit",))))
        self.assertFalse(reached(Bar(1 / 1.08, ("limit",)), own=2.06))
        self.assertTrue(reached(Bar(seconds=2.0)))
        self.assertFalse(reached(Bar(seconds=1.99)))
        self.assertIsNone(reached(Bar(1.0, ("not measured",))))

    def test_a_side_that_fails_is_left_out_and_named(self):
        def fails():
            raise RuntimeError("no such runtime\nand more")
        outcome = measure(Workload("w", {OURS: rounds(1, 1), "peer": fails}, [Bar(1.0)]), 2)
        self.assertEqual(outcome.failures, {"peer": "RuntimeError: no such runtime"})
        self.assertIsNone(outcome.ratio())
        self.assertEqual(outcome.verdicts(), [])

    def test_the_median_and_the_best_round_in_the_unit(self):
        outcome = measure(Workload("w", {OURS: rounds(0.8, 0.25, 0.5)}, [], unit="words/s", per_unit=16), 3)
        self.assertEqual(outcome.shown(OURS), "32 (64)")
        outcome.workload.unit = "us"
        self.assertEqual(outcome.shown(OURS), "500,000 (250,000)")
        outcome.workload.unit = "ms"
        self.assertEqual(outcome.shown(OURS), "500 (250)")


if __name__ == "__main__":
    unittest.main()
