"""The options of calls, made by generate.py from decode.proto: do not edit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

from ._rule import Rule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ._types import HotwordsLike, TargetLike


AtLimitName = Literal["cut", "force-end"]
AttentionName = Literal["none", "hard", "soft"]
DeadlineResultName = Literal["error", "best-so-far"]
DistinctName = Literal["tokens", "text"]
FrameOrderName = Literal["frames", "alignments"]
LengthPenaltyName = Literal["none", "pow", "gnmt"]
RecombineName = Literal["sum", "max", "none"]
SamplingName = Literal["none", "random", "without-replacement"]
StopModeName = Literal["safe", "first", "count", "never", "heuristic"]


class DecodeOptions(TypedDict, total=False):
    """Options of `decode`, `decode_many` and `stream`; one that is left out or None is the model's."""

    beam_size: int | None
    """Hypotheses kept at each step; 1 is greedy search. 1 to 256 hypotheses; default 4."""
    n_best: int | None
    """Hypotheses returned, best first; at most the beam size. 1 to 256 hypotheses; default 1."""
    length_penalty: LengthPenaltyName | None
    """How the sum of log-probabilities is normalised by length: none, pow or gnmt. Default none."""
    length_penalty_alpha: float | None
    """Exponent of the length penalty; larger values favour longer outputs. -10 to 10; default 1."""
    stop: StopModeName | None
    """When the search ends: safe, first, count, never or heuristic. Default safe."""
    patience: float | None
    """With stop count: finished hypotheses waited for, as a multiple of the beam size. 0.01 to 100;
    default 1.
    """
    max_length: int | None
    """Most tokens to generate, the end token included. Overrides the limit relative to the source. 1
    to 65536 tokens.
    """
    max_length_factor: float | None
    """Most tokens to generate relative to the source: ceil(factor * source length) +
    max_length_offset. 0 to 1000 tokens per source token; default 2.
    """
    max_length_offset: int | None
    """Added to the relative maximum length. 0 to 65536 tokens; default 10."""
    min_length: int | None
    """Fewest tokens before an end token may be chosen. 0 to 65536 tokens; default 0."""
    min_length_factor: float | None
    """The same relative to the source: floor(factor * source length); the larger of the two holds. 0
    to 1000 tokens per source token; default 0.
    """
    at_limit: AtLimitName | None
    """What happens to hypotheses that reach the maximum length: cut or force-end. Default cut."""
    word_reward: float | None
    """Added to the sum for each token, before the length penalty; negative values shorten answers.
    -100 to 100 nats per token; default 0.
    """
    end_threshold: float | None
    """An end token needs a log-probability above this multiple of the best other token's; 0 is off.
    0 to 100; default 0.
    """
    score_threshold: float | None
    """Hypotheses that score less are not returned. Unset: off."""
    beam_threshold: float | None
    """In each step, hypotheses that rank lower than the best by more than this are dropped. Unset:
    off. At least 0 nats.
    """
    coverage_penalty: float | None
    """Weight of the coverage penalty wu: source positions that got little attention lower the score.
    0 to 100; default 0.
    """
    deadline_result: DeadlineResultName | None
    """What a search that reaches its deadline answers: error or best-so-far. Default error."""
    stop_strings: str | Sequence[str] | None
    """An answer ends, and its text is cut off, where this occurs behind the target prefix. Text of
    at most 256 bytes; at most 16 of them.
    """
    repetition_penalty: float | None
    """Divides the logit of each token that the hypothesis has already; multiplies it if negative.
    0.01 to 100; default 1.
    """
    no_repeat_ngram: int | None
    """No n-gram of this length occurs twice; 0 allows all. 0 to 64 tokens; default 0."""
    suppress_tokens: TargetLike | None
    """Tokens that are never chosen."""
    suppress_at_begin: TargetLike | None
    """Tokens that are not chosen as the first one."""
    suppress_sequences: Sequence[TargetLike] | None
    """A sequence that never occurs. At most 1024 of them."""
    temperature: float | None
    """Logits are divided by it: above 1 flattens the distribution, below 1 sharpens it. 0.01 to 100;
    default 1.
    """
    renormalize: bool | None
    """Whether log-probabilities are renormalised over what the processors leave. Default true."""
    logit_bias: Mapping[int | str, float] | None
    """Added to the logit of each of the tokens. At most 1024 of them."""
    target_prefix: TargetLike | None
    """Every hypothesis starts with it; it is read in one row and not counted as generated."""
    score_prefix: bool | None
    """Whether the target prefix counts in log_prob, score and length. Default false."""
    soft_prefix: TargetLike | None
    """Preferred beginning: what a hypothesis goes on with as long as it has followed it."""
    soft_prefix_weight: float | None
    """Share of the probability that moves to the soft prefix's next token. 0 to 0.999 of the
    probability; default 0.5.
    """
    num_alternatives: int | None
    """Number of hypotheses with different first tokens (behind the target prefix); 0 is off. 0 to
    256 hypotheses; default 0.
    """
    alternative_min_prob: float | None
    """Alternatives whose first token is less probable are left out. 0 to 1; default 0."""
    allowed_sequences: Sequence[TargetLike] | None
    """Answers are among these. At most 10000 of them."""
    allowed_list: str | None
    """Answers are lines of this list, by its name in the model (token_lists). At most 1024 bytes."""
    shortlist: TargetLike | None
    """Only these tokens, and end tokens, are chosen."""
    required_sequences: Sequence[TargetLike] | None
    """Each occurs in every answer; they share no tokens. At most 32 of them."""
    required_in_order: bool | None
    """Whether the required sequences occur in the order given. Default false."""
    hotwords: HotwordsLike | None
    """A phrase that the answer should rather contain. At most 1024 of them."""
    regex: str | None
    """What answers write behind the target prefix matches it as a whole. At most 16384 bytes."""
    json_schema: str | None
    """What answers write behind the target prefix is JSON that this schema accepts. At most 65536
    bytes.
    """
    diverse_groups: int | None
    """Splits the beam into groups, each of which is kept from choosing what earlier ones chose. 1 to
    256 groups; default 1.
    """
    diversity_penalty: float | None
    """Taken off a token's rank for each hypothesis of an earlier group that chose it in this step. 0
    to 100 nats; default 0.5.
    """
    sampling: SamplingName | None
    """Chance in place of search: none, random or without-replacement. Default none."""
    top_k: int | None
    """Random samples choose among the k most probable tokens; 0 is all. At least 0 tokens; default
    0.
    """
    top_p: float | None
    """Of these, among the most probable ones that together have this share of their probability.
    1e-06 to 1 of the probability; default 1.
    """
    min_p: float | None
    """Of these, among those with at least this multiple of the best one's probability. 0 to 1;
    default 0.
    """
    seed: int | None
    """What chance starts from: equal requests with equal seeds give equal answers. Default 0."""
    top_tokens: int | None
    """Number of most probable tokens returned for each position, with log-probabilities. 0 to 64
    tokens; default 0.
    """
    lattice: bool | None
    """Whether every hypothesis of every step is returned, with its parent. Default false."""
    attention: AttentionName | None
    """What is returned of the attention over the source: none, hard (an alignment) or soft (also all
    weights). Default none.
    """
    trace: int | None
    """Each step is returned with the candidates that it chose and this number of the best others,
    with reasons; 0 is off. 0 to 1024 candidates; default 0.
    """
    distinct: DistinctName | None
    """What an n-best list holds once: tokens or text. Of equal texts the best is returned, so that
    there may be fewer. Default tokens.
    """
    return_state: bool | None
    """Whether the model's state behind the target prefix is returned, from which later requests go
    on. Default false.
    """
    words: bool | None
    """Whether answers have the words of their texts, with confidences and, of searches by frames,
    times. Default false.
    """
    fusion: Mapping[str, float] | None
    """Adds weight times the log-probability of a scorer of the model. At most 8 of them."""
    lexical_shortlist: bool | None
    """Whether only tokens are chosen that the model's lexical table has for the source, or frequent
    ones. Default false.
    """
    blank_penalty: float | None
    """Taken off the blank's logit in every frame: above 0 gives more tokens, below 0 fewer. -100 to
    100 nats; default 0.
    """
    max_symbols_per_frame: int | None
    """Most tokens that a hypothesis takes in one frame. Unset: what the model says, else 1. 1 to 100
    tokens.
    """
    expansion: int | None
    """The most probable tokens that each hypothesis tries in a frame. Unset: as many as the beam
    size, of CTC all. 1 to 256 tokens.
    """
    recombine: RecombineName | None
    """What becomes of hypotheses with equal tokens: sum (one, with the sum of their probabilities),
    max (the better one) or, of transducers, none (each stays). Default sum.
    """
    frame_beam: float | None
    """Hypotheses whose log-probability is further below the best one's are dropped at the end of a
    frame. Unset or 0: off. At least 0 nats.
    """
    full_sum: bool | None
    """Whether each hypothesis is returned with the sum over all its alignments, pruned ones
    included. Default false.
    """
    frame_order: FrameOrderName | None
    """Which hypotheses compete: those that have reached the same frame (frames), or those of equal
    frames and tokens together (alignments). Default frames.
    """


DECODE_OPTIONS = {
    "beam_size": Rule(kind="int", type="int", text='Hypotheses kept at each step; 1 is greedy search. 1 to 256 hypotheses; default 4.', minimum=1, maximum=256),
    "n_best": Rule(kind="int", type="int", text='Hypotheses returned, best first; at most the beam size. 1 to 256 hypotheses; default 1.', minimum=1, maximum=256),
    "length_penalty": Rule(kind="enum", type="LengthPenaltyName", text='How the sum of log-probabilities is normalised by length: none, pow or gnmt. Default none.', choices={'none': 1, 'pow': 2, 'gnmt': 3}),
    "length_penalty_alpha": Rule(kind="float", type="float", text='Exponent of the length penalty; larger values favour longer outputs. -10 to 10; default 1.', minimum=-10, maximum=10),
    "stop": Rule(kind="enum", type="StopModeName", text='When the search ends: safe, first, count, never or heuristic. Default safe.', choices={'safe': 1, 'first': 2, 'count': 3, 'never': 4, 'heuristic': 5}),
    "patience": Rule(kind="float", type="float", text='With stop count: finished hypotheses waited for, as a multiple of the beam size. 0.01 to 100; default 1.', minimum=0.01, maximum=100),
    "max_length": Rule(kind="int", type="int", text='Most tokens to generate, the end token included. Overrides the limit relative to the source. 1 to 65536 tokens.', minimum=1, maximum=65536),
    "max_length_factor": Rule(kind="float", type="float", text='Most tokens to generate relative to the source: ceil(factor * source length) + max_length_offset. 0 to 1000 tokens per source token; default 2.', minimum=0, maximum=1000),
    "max_length_offset": Rule(kind="int", type="int", text='Added to the relative maximum length. 0 to 65536 tokens; default 10.', minimum=0, maximum=65536),
    "min_length": Rule(kind="int", type="int", text='Fewest tokens before an end token may be chosen. 0 to 65536 tokens; default 0.', minimum=0, maximum=65536),
    "min_length_factor": Rule(kind="float", type="float", text='The same relative to the source: floor(factor * source length); the larger of the two holds. 0 to 1000 tokens per source token; default 0.', minimum=0, maximum=1000),
    "at_limit": Rule(kind="enum", type="AtLimitName", text='What happens to hypotheses that reach the maximum length: cut or force-end. Default cut.', choices={'cut': 1, 'force-end': 2}),
    "word_reward": Rule(kind="float", type="float", text='Added to the sum for each token, before the length penalty; negative values shorten answers. -100 to 100 nats per token; default 0.', minimum=-100, maximum=100),
    "end_threshold": Rule(kind="float", type="float", text="An end token needs a log-probability above this multiple of the best other token's; 0 is off. 0 to 100; default 0.", minimum=0, maximum=100),
    "score_threshold": Rule(kind="float", type="float", text='Hypotheses that score less are not returned. Unset: off.'),
    "beam_threshold": Rule(kind="float", type="float", text='In each step, hypotheses that rank lower than the best by more than this are dropped. Unset: off. At least 0 nats.', minimum=0),
    "coverage_penalty": Rule(kind="float", type="float", text='Weight of the coverage penalty wu: source positions that got little attention lower the score. 0 to 100; default 0.', minimum=0, maximum=100),
    "deadline_result": Rule(kind="enum", type="DeadlineResultName", text='What a search that reaches its deadline answers: error or best-so-far. Default error.', choices={'error': 1, 'best-so-far': 2}),
    "stop_strings": Rule(kind="strs", type="str | Sequence[str]", text='An answer ends, and its text is cut off, where this occurs behind the target prefix. Text of at most 256 bytes; at most 16 of them.'),
    "repetition_penalty": Rule(kind="float", type="float", text='Divides the logit of each token that the hypothesis has already; multiplies it if negative. 0.01 to 100; default 1.', minimum=0.01, maximum=100),
    "no_repeat_ngram": Rule(kind="int", type="int", text='No n-gram of this length occurs twice; 0 allows all. 0 to 64 tokens; default 0.', minimum=0, maximum=64),
    "suppress_tokens": Rule(kind="tokens", type="TargetLike", text='Tokens that are never chosen.'),
    "suppress_at_begin": Rule(kind="tokens", type="TargetLike", text='Tokens that are not chosen as the first one.'),
    "suppress_sequences": Rule(kind="token_lists", type="Sequence[TargetLike]", text='A sequence that never occurs. At most 1024 of them.'),
    "temperature": Rule(kind="float", type="float", text='Logits are divided by it: above 1 flattens the distribution, below 1 sharpens it. 0.01 to 100; default 1.', minimum=0.01, maximum=100),
    "renormalize": Rule(kind="bool", type="bool", text='Whether log-probabilities are renormalised over what the processors leave. Default true.'),
    "logit_bias": Rule(kind="logit_bias", type="Mapping[int | str, float]", text='Added to the logit of each of the tokens. At most 1024 of them.'),
    "target_prefix": Rule(kind="tokens", type="TargetLike", text='Every hypothesis starts with it; it is read in one row and not counted as generated.'),
    "score_prefix": Rule(kind="bool", type="bool", text='Whether the target prefix counts in log_prob, score and length. Default false.'),
    "soft_prefix": Rule(kind="tokens", type="TargetLike", text='Preferred beginning: what a hypothesis goes on with as long as it has followed it.'),
    "soft_prefix_weight": Rule(kind="float", type="float", text="Share of the probability that moves to the soft prefix's next token. 0 to 0.999 of the probability; default 0.5.", minimum=0, maximum=0.999),
    "num_alternatives": Rule(kind="int", type="int", text='Number of hypotheses with different first tokens (behind the target prefix); 0 is off. 0 to 256 hypotheses; default 0.', minimum=0, maximum=256),
    "alternative_min_prob": Rule(kind="float", type="float", text='Alternatives whose first token is less probable are left out. 0 to 1; default 0.', minimum=0, maximum=1),
    "allowed_sequences": Rule(kind="token_lists", type="Sequence[TargetLike]", text='Answers are among these. At most 10000 of them.'),
    "allowed_list": Rule(kind="str", type="str", text='Answers are lines of this list, by its name in the model (token_lists). At most 1024 bytes.'),
    "shortlist": Rule(kind="tokens", type="TargetLike", text='Only these tokens, and end tokens, are chosen.'),
    "required_sequences": Rule(kind="token_lists", type="Sequence[TargetLike]", text='Each occurs in every answer; they share no tokens. At most 32 of them.'),
    "required_in_order": Rule(kind="bool", type="bool", text='Whether the required sequences occur in the order given. Default false.'),
    "hotwords": Rule(kind="hotwords", type="HotwordsLike", text='A phrase that the answer should rather contain. At most 1024 of them.'),
    "regex": Rule(kind="str", type="str", text='What answers write behind the target prefix matches it as a whole. At most 16384 bytes.'),
    "json_schema": Rule(kind="str", type="str", text='What answers write behind the target prefix is JSON that this schema accepts. At most 65536 bytes.'),
    "diverse_groups": Rule(kind="int", type="int", text='Splits the beam into groups, each of which is kept from choosing what earlier ones chose. 1 to 256 groups; default 1.', minimum=1, maximum=256),
    "diversity_penalty": Rule(kind="float", type="float", text="Taken off a token's rank for each hypothesis of an earlier group that chose it in this step. 0 to 100 nats; default 0.5.", minimum=0, maximum=100),
    "sampling": Rule(kind="enum", type="SamplingName", text='Chance in place of search: none, random or without-replacement. Default none.', choices={'none': 1, 'random': 2, 'without-replacement': 3}),
    "top_k": Rule(kind="int", type="int", text='Random samples choose among the k most probable tokens; 0 is all. At least 0 tokens; default 0.', minimum=0),
    "top_p": Rule(kind="float", type="float", text='Of these, among the most probable ones that together have this share of their probability. 1e-06 to 1 of the probability; default 1.', minimum=1e-06, maximum=1),
    "min_p": Rule(kind="float", type="float", text="Of these, among those with at least this multiple of the best one's probability. 0 to 1; default 0.", minimum=0, maximum=1),
    "seed": Rule(kind="int", type="int", text='What chance starts from: equal requests with equal seeds give equal answers. Default 0.'),
    "top_tokens": Rule(kind="int", type="int", text='Number of most probable tokens returned for each position, with log-probabilities. 0 to 64 tokens; default 0.', minimum=0, maximum=64),
    "lattice": Rule(kind="bool", type="bool", text='Whether every hypothesis of every step is returned, with its parent. Default false.'),
    "attention": Rule(kind="enum", type="AttentionName", text='What is returned of the attention over the source: none, hard (an alignment) or soft (also all weights). Default none.', choices={'none': 1, 'hard': 2, 'soft': 3}),
    "trace": Rule(kind="int", type="int", text='Each step is returned with the candidates that it chose and this number of the best others, with reasons; 0 is off. 0 to 1024 candidates; default 0.', minimum=0, maximum=1024),
    "distinct": Rule(kind="enum", type="DistinctName", text='What an n-best list holds once: tokens or text. Of equal texts the best is returned, so that there may be fewer. Default tokens.', choices={'tokens': 1, 'text': 2}),
    "return_state": Rule(kind="bool", type="bool", text="Whether the model's state behind the target prefix is returned, from which later requests go on. Default false."),
    "words": Rule(kind="bool", type="bool", text='Whether answers have the words of their texts, with confidences and, of searches by frames, times. Default false.'),
    "fusion": Rule(kind="fusion", type="Mapping[str, float]", text='Adds weight times the log-probability of a scorer of the model. At most 8 of them.'),
    "lexical_shortlist": Rule(kind="bool", type="bool", text="Whether only tokens are chosen that the model's lexical table has for the source, or frequent ones. Default false."),
    "blank_penalty": Rule(kind="float", type="float", text="Taken off the blank's logit in every frame: above 0 gives more tokens, below 0 fewer. -100 to 100 nats; default 0.", minimum=-100, maximum=100),
    "max_symbols_per_frame": Rule(kind="int", type="int", text='Most tokens that a hypothesis takes in one frame. Unset: what the model says, else 1. 1 to 100 tokens.', minimum=1, maximum=100),
    "expansion": Rule(kind="int", type="int", text='The most probable tokens that each hypothesis tries in a frame. Unset: as many as the beam size, of CTC all. 1 to 256 tokens.', minimum=1, maximum=256),
    "recombine": Rule(kind="enum", type="RecombineName", text='What becomes of hypotheses with equal tokens: sum (one, with the sum of their probabilities), max (the better one) or, of transducers, none (each stays). Default sum.', choices={'sum': 1, 'max': 2, 'none': 3}),
    "frame_beam": Rule(kind="float", type="float", text="Hypotheses whose log-probability is further below the best one's are dropped at the end of a frame. Unset or 0: off. At least 0 nats.", minimum=0),
    "full_sum": Rule(kind="bool", type="bool", text='Whether each hypothesis is returned with the sum over all its alignments, pruned ones included. Default false.'),
    "frame_order": Rule(kind="enum", type="FrameOrderName", text='Which hypotheses compete: those that have reached the same frame (frames), or those of equal frames and tokens together (alignments). Default frames.', choices={'frames': 1, 'alignments': 2}),
}


class ScoreOptions(TypedDict, total=False):
    """Options of `score`; one that is left out or None is the model's."""

    end_token: bool | None
    """Whether targets without an end token get one, which is scored too. Default true."""
    length_penalty: LengthPenaltyName | None
    """How the sum of log-probabilities is normalised by length: none, pow or gnmt. Default none."""
    length_penalty_alpha: float | None
    """Exponent of the length penalty. -10 to 10; default 1."""
    word_reward: float | None
    """Added to the sum for each token, before the length penalty. -100 to 100 nats per token;
    default 0.
    """
    coverage_penalty: float | None
    """Weight of the coverage penalty wu. 0 to 100; default 0."""
    top_tokens: int | None
    """Number of most probable tokens returned for each position, with log-probabilities. 0 to 64
    tokens; default 0.
    """
    attention: AttentionName | None
    """What is returned of the attention over the source: none, hard (an alignment) or soft (also all
    weights). Default none.
    """
    fusion: Mapping[str, float] | None
    """Adds weight times the log-probability of a scorer of the model. At most 8 of them."""
    max_symbols_per_frame: int | None
    """Most tokens of an alignment in a frame. Unset: any number. 1 to 100 tokens."""


SCORE_OPTIONS = {
    "end_token": Rule(kind="bool", type="bool", text='Whether targets without an end token get one, which is scored too. Default true.'),
    "length_penalty": Rule(kind="enum", type="LengthPenaltyName", text='How the sum of log-probabilities is normalised by length: none, pow or gnmt. Default none.', choices={'none': 1, 'pow': 2, 'gnmt': 3}),
    "length_penalty_alpha": Rule(kind="float", type="float", text='Exponent of the length penalty. -10 to 10; default 1.', minimum=-10, maximum=10),
    "word_reward": Rule(kind="float", type="float", text='Added to the sum for each token, before the length penalty. -100 to 100 nats per token; default 0.', minimum=-100, maximum=100),
    "coverage_penalty": Rule(kind="float", type="float", text='Weight of the coverage penalty wu. 0 to 100; default 0.', minimum=0, maximum=100),
    "top_tokens": Rule(kind="int", type="int", text='Number of most probable tokens returned for each position, with log-probabilities. 0 to 64 tokens; default 0.', minimum=0, maximum=64),
    "attention": Rule(kind="enum", type="AttentionName", text='What is returned of the attention over the source: none, hard (an alignment) or soft (also all weights). Default none.', choices={'none': 1, 'hard': 2, 'soft': 3}),
    "fusion": Rule(kind="fusion", type="Mapping[str, float]", text='Adds weight times the log-probability of a scorer of the model. At most 8 of them.'),
    "max_symbols_per_frame": Rule(kind="int", type="int", text='Most tokens of an alignment in a frame. Unset: any number. 1 to 100 tokens.', minimum=1, maximum=100),
}
