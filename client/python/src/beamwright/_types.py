"""What goes into calls and comes out of them."""

from __future__ import annotations

import enum
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Union

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[Any]
    FloatMatrix = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Features:
    """A source of features for the encoder.

    `values` is an array [length, ...] without a batch axis: speech frames, image columns. Its
    element type is sent as it is and must be the one that the encoder reads (see `describe`).
    """

    values: Array


@dataclass(frozen=True, eq=False)
class DecoderInputs:
    """A source that was encoded elsewhere, for models without an encoder.

    Arrays by the names that `describe` lists, each without a batch axis. `source_length` is the
    length that relative maximum lengths count from; 0 is the first extent of the first memory.
    """

    memory: Mapping[str, Array]
    states: Mapping[str, Array] = field(default_factory=dict)
    source_length: int = 0


@dataclass(frozen=True, eq=False)
class WithInputs:
    """A source for an encoder that reads further inputs, such as a speaker's vector.

    `source` is text, token ids, an array, Features or Picture. `further_inputs` has arrays by the names that
    `describe` lists, each without a batch axis and of the element type that the encoder reads.
    """

    source: str | Sequence[int] | Array | Features | Picture
    further_inputs: Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class Picture:
    """A source that is a picture, for models whose bundle has `picture`.

    `file` is the path of a PNG or JPEG file, or its content.
    """

    file: str | os.PathLike[str] | bytes


# Text, token ids, or an array: whole numbers of one axis are ids, all others features.
SourceLike = Union[str, Sequence[int], "Array", Features, Picture, WithInputs, DecoderInputs]
# Text in the model's target form, or token ids.
TargetLike = Union[str, Sequence[int], "npt.NDArray[np.integer[Any]]"]


@dataclass(frozen=True)
class Hotword:
    """A phrase that the answer should rather contain, and what each occurrence adds."""

    phrase: TargetLike
    bonus: float = 1.0


# Phrases with their bonus; without one it is 1.
HotwordsLike = Mapping[str, float] | Sequence[str | Hotword]


class FinishReason(str, enum.Enum):
    """What ended a hypothesis."""

    UNSPECIFIED = "unspecified"
    EOS = "eos"
    """An end token was chosen; it is the last of `tokens`."""
    LENGTH = "length"
    """The maximum length."""
    DEADLINE = "deadline"
    """Was under way at the deadline (`deadline_result="best-so-far"`)."""
    SHUTDOWN = "shutdown"
    """Was under way when the server had to end."""
    END_OF_SOURCE = "end-of-source"
    """Of a search by frames: the last frame was read."""
    STOP = "stop"
    """One of `stop_strings` is complete; the text ends before it."""


@dataclass(frozen=True)
class ScorerPart:
    """What a scorer of `fusion` said of a hypothesis: the sum of its natural-log probabilities."""

    name: str
    weight: float
    log_prob: float


@dataclass(frozen=True)
class MemberPart:
    """What a decoder of an ensemble said of a hypothesis. All weights add up to 1."""

    weight: float
    log_prob: float


@dataclass(frozen=True)
class TopTokens:
    """The most probable tokens of one position, best first, with natural-log probabilities."""

    tokens: tuple[int, ...]
    log_probs: tuple[float, ...]


@dataclass(frozen=True)
class Word:
    """A word of a text: what white space separates, or a token of a script without spaces."""

    text: str
    begin_ms: float | None
    """Of the source, as is end_ms; None outside of searches by frames whose frames have a known duration."""
    end_ms: float | None
    confidence: float
    """The geometric mean of its tokens' probabilities."""
    posterior: float | None = None
    """Of the best hypothesis' words: the share of the list, by score, that has the word in this place."""
    first_token: int = 0
    """In the hypothesis' tokens."""
    num_tokens: int = 0


@dataclass(frozen=True, repr=False)
class Hypothesis:
    """One answer of an n-best list. `attention` has no part in comparisons."""

    text: str
    """The tokens as text, without end token; empty for models without text."""
    tokens: tuple[int, ...]
    """The target prefix, then what was generated, the end token included where there is one."""
    token_log_probs: tuple[float, ...]
    """The natural-log probability of each token."""
    log_prob: float
    """Their sum over what was generated (with `score_prefix` over all tokens)."""
    score: float
    """What hypotheses are ranked by: log_prob, rewards and scorers, normalised by length."""
    finish_reason: FinishReason
    prefix_length: int = 0
    """How many of the tokens are the target prefix."""
    prefix_log_prob: float = 0.0
    reward: float = 0.0
    """What hotwords and the soft prefix gave."""
    coverage: float = 0.0
    """What the coverage penalty takes off; 0 or less."""
    alignment: tuple[int, ...] = ()
    """With `attention`: for each token the source position, from 0, with the largest weight."""
    attention: FloatMatrix | None = field(default=None, compare=False)
    """With `attention="soft"`: weights [tokens, source positions], f32."""
    top_tokens: tuple[TopTokens, ...] = ()
    """With `top_tokens`: one entry a token."""
    scorer_parts: tuple[ScorerPart, ...] = ()
    member_parts: tuple[MemberPart, ...] = ()
    token_frames: tuple[int, ...] = ()
    """Of a search by frames: for each token the frame, from 0, in which it begins."""
    token_durations: tuple[int, ...] = ()
    """How many frames it lasts, in searches by frames."""
    alignment_log_prob: float = 0.0
    """Of the best alignment alone, in searches by frames; log_prob is the sum over merged alignments."""
    full_log_prob: float | None = None
    """With `full_sum`: the sum over all alignments."""
    words: tuple[Word, ...] = ()
    """With `words`: those of the text."""

    def __str__(self) -> str:
        return self.text or " ".join(map(str, self.tokens))

    def __repr__(self) -> str:
        return (
            f"Hypothesis({str(self)!r}, score={self.score:.4f}, log_prob={self.log_prob:.4f}, "
            f"{self.finish_reason.value})"
        )

    def _repr_html_(self) -> str:
        from . import _html

        return _html.hypotheses([self], None)


@dataclass(frozen=True)
class LatticeStep:
    """What one step kept: first what lived on, `num_live` of them, then what ended in it."""

    parents: tuple[int, ...]
    """Index in the step before; 0 in the first one."""
    tokens: tuple[int, ...]
    log_probs: tuple[float, ...]
    num_live: int


@dataclass(frozen=True, repr=False)
class Decoded:
    """The answer to a source: hypotheses, best first.

    Times have no part in comparisons: equal requests to servers of equal `numerics` give equal
    answers.
    """

    hypotheses: tuple[Hypothesis, ...]
    """Best first; random samples in the order of their numbers. Empty where `score_threshold` left none."""
    source: str | None = None
    """The source, where it is text."""
    source_length: int = 0
    """In the model's tokens."""
    steps: int = 0
    """Steps that the decoder ran."""
    unknown_positions: tuple[int, ...] = ()
    """Positions of the source whose text is not in the vocabulary."""
    lattice: tuple[LatticeStep, ...] = ()
    """With `lattice`: one entry a step."""
    queue_ms: float = field(default=0.0, compare=False)
    """Milliseconds between admission and the first step."""
    compute_ms: float = field(default=0.0, compare=False)
    """Milliseconds from there to the end."""
    first_token_ms: float = field(default=0.0, compare=False)
    """Of a stream: milliseconds between admission and the first token that could no longer change."""
    model: str = ""
    version: str = ""
    numerics: str = ""
    """The numerics class: answers of equal class are equal bit for bit."""
    state: bytes = b""
    """With `return_state`: the model's state behind the prompt, which later requests take as `state`."""
    cached_prefix_length: int = field(default=0, compare=False)
    """Tokens of the prompt that were not read again: their state was kept from another request."""

    @property
    def best(self) -> Hypothesis:
        """The first hypothesis; IndexError in an empty answer."""
        if not self.hypotheses:
            raise IndexError("no hypothesis was returned: all score less than score_threshold")
        return self.hypotheses[0]

    @property
    def text(self) -> str:
        """The text of the best hypothesis."""
        return self.best.text

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens of the best hypothesis."""
        return self.best.tokens

    @property
    def score(self) -> float:
        """The score of the best hypothesis."""
        return self.best.score

    def __len__(self) -> int:
        return len(self.hypotheses)

    def __bool__(self) -> bool:  # an answer is one even if it is empty
        return True

    def __iter__(self) -> Iterator[Hypothesis]:
        return iter(self.hypotheses)

    def __getitem__(self, index: int) -> Hypothesis:
        return self.hypotheses[index]

    def __repr__(self) -> str:
        source = "" if self.source is None else f"{self.source!r}: "
        more = "".join(f",\n  {hypothesis!r}" for hypothesis in self.hypotheses)
        return f"Decoded({source}{len(self)} of {self.model or 'the model'}{more})"

    def _repr_html_(self) -> str:
        from . import _html

        return _html.hypotheses(self.hypotheses, self.source)


@dataclass(frozen=True)
class StableTokens:
    """Tokens that every hypothesis of the answer will begin with, after the earlier ones."""

    tokens: tuple[int, ...]
    position: int
    """Place of the first of them in a hypothesis."""
    text: str
    """All stable tokens so far, as text."""
    sample: int = 0
    """With `sampling="random"`: the sample that they belong to."""


@dataclass(frozen=True)
class StreamUpdate:
    """A message of a stream."""

    stable: tuple[StableTokens, ...] = ()
    """What became stable since the one before; of random sampling for each sample apart."""
    provisional: Hypothesis | None = None
    """Only if asked for: the best hypothesis so far, which may change."""
    result: Decoded | None = None
    """The whole answer; in the last message, and only there."""


@dataclass(frozen=True)
class RecognizedSegment:
    """A part of a source that was recognised while it was sent."""

    number: int
    """From 0."""
    hypotheses: tuple[Hypothesis, ...]
    """Best first. Their token_frames count from the segment's first frame."""
    first_frame: int
    """In the source; frames are those of the search."""
    num_frames: int
    begin_ms: float
    """0 where the model does not say how long a frame is, as is end_ms."""
    end_ms: float
    words: tuple[Word, ...] = ()
    """Of the best hypothesis; none where the model does not say how long a frame is."""

    @property
    def text(self) -> str:
        """Of the best hypothesis; empty without one."""
        return self.hypotheses[0].text if self.hypotheses else ""


@dataclass(frozen=True)
class RecognizeUpdate:
    """A message of a recognition."""

    segments: tuple[RecognizedSegment, ...] = ()
    """That ended since the message before."""
    stable: StableTokens | None = None
    """Of the segment that goes on: what became stable since then."""
    provisional: Hypothesis | None = None
    """Only if asked for: its best hypothesis so far, which may change."""
    is_last: bool = False


@dataclass(frozen=True)
class Recognition:
    """A source that was recognised."""

    segments: tuple[RecognizedSegment, ...]
    num_frames: int
    """Of the search."""
    frame_ms: float
    """Milliseconds of a frame; 0: unknown."""
    model: str
    version: str
    numerics: str
    language: str = ""
    """Of Whisper: the code of what was spoken."""

    @property
    def text(self) -> str:
        """Of all segments, with spaces between them."""
        return " ".join(segment.text for segment in self.segments if segment.text)


@dataclass(frozen=True)
class ScoredTarget:
    """A given target with its score."""

    hypothesis: Hypothesis
    """As a search would return it; LENGTH where no end token closes it."""
    perplexity: float
    """exp(-log_prob / number of tokens)."""

    @property
    def score(self) -> float:
        """The score of the hypothesis."""
        return self.hypothesis.score

    @property
    def log_prob(self) -> float:
        """The sum of its tokens' natural-log probabilities."""
        return self.hypothesis.log_prob


@dataclass(frozen=True)
class Scored:
    """The scores of targets, in the order given."""

    targets: tuple[ScoredTarget, ...]
    source: str | None = None
    source_length: int = 0
    unknown_positions: tuple[int, ...] = ()
    queue_ms: float = field(default=0.0, compare=False)
    compute_ms: float = field(default=0.0, compare=False)
    model: str = ""
    version: str = ""
    numerics: str = ""

    def __len__(self) -> int:
        return len(self.targets)

    def __iter__(self) -> Iterator[ScoredTarget]:
        return iter(self.targets)

    def __getitem__(self, index: int) -> ScoredTarget:
        return self.targets[index]


@dataclass(frozen=True)
class Translation:
    """A text's translation."""

    text: str
    alternatives: tuple[str, ...] = ()
    """Further translations, best first."""
    source_language: str = ""
    """As the models' bundles write it."""
    target_language: str = ""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Alignment:
    """Where the tokens of a target come from."""

    tokens: tuple[int, ...]
    positions: tuple[int, ...]
    """For each token the source position, from 0, with the largest weight."""
    attention: FloatMatrix | None = field(default=None, compare=False, repr=False)
    """With `soft`: all weights [tokens, source positions], f32."""
    source: str | None = None
    target: str | None = None
    source_length: int = 0
    model: str = ""
    version: str = ""
    numerics: str = ""

    def _repr_html_(self) -> str:
        from . import _html

        return _html.alignment(self)


@dataclass(frozen=True)
class ModelSummary:
    """A version of a model, as the server lists it."""

    name: str
    version: str
    description: str
    ready: bool
    reason: str
    """Why it is not ready."""
    labels: tuple[str, ...] = ()
    """Names that requests may give instead of the version."""
    not_in_memory: bool = False
    """It is ready, and its next call loads it."""


@dataclass(frozen=True)
class TensorInfo:
    """A tensor that a request carries, without a batch axis; -1 is an extent that it chooses."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    has_default: bool = False
    """A state or a further input that a request may leave out."""


@dataclass(frozen=True)
class Streaming:
    """How an encoder reads a source that is still arriving: a run reads `chunk` features, the next
    begins `shift` later, and each gives `frames` frames.
    """

    chunk: int
    shift: int
    frames: int
    look_ahead: int
    """chunk - shift."""
    chunk_ms: float
    """The encoder reads a sample at most this time later; 0 if the bundle does not say how long a frame is."""
    shift_ms: float
    look_ahead_ms: float
    state_bytes: int
    """What a stream holds."""


@dataclass(frozen=True)
class ModelDescription:
    """The server's description of a model."""

    summary: ModelSummary
    numerics: str
    source_vocabulary_size: int
    target_vocabulary_size: int
    encoder_input: TensorInfo | None
    """What the encoder reads: ids or features. None without an encoder."""
    memory: tuple[TensorInfo, ...]
    """Without an encoder: what `DecoderInputs` carries."""
    states: tuple[TensorInfo, ...]
    encodes_together: bool | None
    """Whether sources of several requests are encoded together. None without an encoder."""
    steps_together: bool | None
    """Whether a step computes the rows of all requests together. None from a server before 0.2."""
    source_length_axis: int
    """Axis of the encoder's input that counts as the source's length. Axis 0 is that of the rows, which
    `encoder_input` leaves out. 0 without an encoder."""
    config: Mapping[str, Any] = field(compare=False, repr=False)
    """model.textproto of the bundle, by the names of its fields."""
    further_inputs: tuple[TensorInfo, ...] = ()
    """The inputs of `WithInputs` besides the source."""
    streaming: Streaming | None = None
    """None: the encoder reads the whole source, or the model has no encoder."""
    encodes_lengths_together: bool | None = None
    """Whether sources of unequal length may be among those that are encoded together. None where
    `encodes_together` is not true, where the encoder reads chunk by chunk, and from a server before 0.2."""


class Health(str, enum.Enum):
    """What a health check answers."""

    UNKNOWN = "unknown"
    SERVING = "serving"
    NOT_SERVING = "not serving"
    SERVICE_UNKNOWN = "service unknown"
