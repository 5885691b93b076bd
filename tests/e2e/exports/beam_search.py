"""Beam search as docs/decoding.md defines it, over log-probabilities of whole prefixes: the slow and obvious way.

It keeps no state of the model: each step asks for the next token's log-probabilities of every prefix anew.
"""

import math

import numpy as np


def norm(options, length):
    """The divisor of a sum of log-probabilities over this number of tokens."""
    alpha = options["length_penalty_alpha"]
    return {
        "LENGTH_PENALTY_NONE": 1.0,
        "LENGTH_PENALTY_POW": length**alpha,
        "LENGTH_PENALTY_GNMT": ((5 + length) / 6) ** alpha,
    }[options["length_penalty"]]


class Gaps:
    """The smallest distance of two numbers whose order mattered; equal ones are counted, as ties."""

    def __init__(self):
        self.smallest = math.inf
        self.ties = 0

    def see(self, descending):
        for high, low in zip(descending, descending[1:]):
            if high == low:
                self.ties += math.isfinite(high)
            else:
                self.smallest = min(self.smallest, high - low)


def beam_search(next_log_probs, end, max_length, options):
    """Searches to the maximum length: what the stop modes `safe` and `never` answer.

    next_log_probs: list of prefixes of one length -> f32 [prefixes, tokens].
    Returns the n-best list, each (tokens, their log-probabilities, sum, score), and Gaps.
    """
    beam_size = options["beam_size"]
    rows, finished, gaps = [((), (), 0.0)], [], Gaps()
    for step in range(max_length):
        # By sum, row, the token's own log-probability, token: docs/decoding.md, 'Order'.
        pairs = [
            (-(total + float(p)), row, -float(p), token)
            for (row, (_, _, total)), log_probs in zip(
                enumerate(rows), next_log_probs([tokens for tokens, _, _ in rows])
            )
            for token, p in enumerate(log_probs)
            if np.isfinite(p)
        ]
        pairs.sort()
        gaps.see([-pair[0] for pair in pairs[: beam_size + 2]])
        live = []
        for rank, (negative, row, negative_p, token) in enumerate(pairs):
            tokens, steps, _ = rows[row]
            extended = (*tokens, token), (*steps, -negative_p), -negative
            if token == end:
                if rank < beam_size:
                    finished.append(extended)
            elif len(live) < beam_size:
                live.append(extended)
        rows = live
        if not rows or (beam_size == 1 and finished):
            rows = []
            break
    scored = [(*each, each[2] / norm(options, len(each[0]))) for each in finished + rows]
    scored.sort(key=lambda each: (-each[3], len(each[0]), each[0]))
    gaps.see([each[3] for each in scored[: options["n_best"] + 1]])
    return scored[: options["n_best"]], gaps
