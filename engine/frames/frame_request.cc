// One request that is searched by frames (CTC, transducer, tagger): a whole source, or a stream
// that is cut into segments.
//
// 1. A source in chunks: wants_chunk says when the encoder may read the next one, TakeChunk takes
//    its frames. A whole source waits for all of them (TakeWhole).
// 2. A stream: Announce gives the search one frame after another and ends a segment by an endpoint
//    rule (a pause of some length), at most_frames, or at the end of the stream. KeepSegment keeps
//    the segment's answer, LeaveSegment begins the next one.
// 3. Memory: a stream's segment may grow, so that its price is paid in steps (MakeRoom), and given
//    back after a long segment (GiveBackRoom); DropRead frees frames that the search has read.
// 4. EnterPhase: when the search is done, hypotheses may be scored over all alignments
//    (wants_full_sum), as a second phase.
// 5. ReportProgress: segments that have ended, labels that cannot change any more, and provisional
//    hypotheses. Cut ends the request early with what it has.
#include "engine/frames/frame_request.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/frames/frame_request_kinds.h"
#include "engine/model/parts.h"
#include "engine/request/answers.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"
#include "ops/base/steady_time.h"

namespace beamwright::engine {

// The memory that a request searched by frames may take at most, which admission reserves before it
// runs. PriceFrames is for whole sources, PriceStream for a stream's segment of a number of frames.
//
// A price is the sum of: frames (FrameBytes: the scores, or what the joiner needs of each), the
// encoder's states and chunk (ChunkBytes), the search's hypotheses with the predictor's and
// scorers' states (SearchBytes, SlotBytes, ScorerBytes), lists of tokens that options name
// (ListBytes), and the forward algorithm of scored targets (ScoringBytes).
//
// CountFrameSteps is the number of steps, for the forecast of the time that a request takes.

namespace {

// Frames that a stream keeps at a time: those that were read are dropped by 64.
constexpr int64_t kHeldFrames = 128;

// Bytes of the forward algorithm over `frames` frames: sums, and back pointers of best paths.
int64_t ScoringBytes(int64_t frames, int64_t labels) {
  return (2 * labels + 1) * (int64_t{4} * sizeof(double) + frames) +
         labels * frames * int64_t{sizeof(float)};
}

// Bytes of one row of a value.
int64_t RowBytes(const ops::ValueInfo& info) {
  int64_t bytes = ops::SizeOf(info.dtype);
  for (int axis = 1; axis < info.shape.rank(); ++axis) {
    bytes *= std::max<int64_t>(info.shape.dim(axis), 1);
  }
  return bytes;
}

// Bytes of the predictor's states and outputs that a label history holds.
int64_t SlotBytes(const TransducerPart& part) {
  int64_t bytes = int64_t{sizeof(int32_t)} * part.context_size;
  for (const ops::ValueInfo& state : part.graphs.predictor->states()) {
    bytes += RowBytes(state);
  }
  for (int i = 0; i < part.num_outputs(); ++i) {
    bytes += RowBytes(part.graphs.predictor->result(part.graphs.first_output + i));
  }
  return bytes;
}

// Bytes that are kept of a frame.
int64_t FrameBytes(const FramesPart& part) {
  if (part.transducer == nullptr || part.transducer->graphs.frames == nullptr) {
    // With transitions, the log-sum and the most of what may follow each label as well.
    constexpr int64_t kFollowing = 2 * sizeof(double);
    return part.frame_width *
           (int64_t{sizeof(float)} + (part.transitions != nullptr ? kFollowing : 0));
  }
  const ops::RowGraph& frames = *part.transducer->graphs.frames;
  int64_t bytes = 0;
  for (int i = 0; i < frames.num_results(); ++i) {
    bytes += RowBytes(frames.result(i));
  }
  return bytes;
}

// Bytes of the scorers' rows that a label history holds.
int64_t ScorerBytes(const FrameRequest& request) {
  int64_t bytes = 0;
  for (const RowScorer& scorer : request.row_scorers) {
    const DecodeModel::Parts& parts = request.model->parts();
    bytes += parts.vocabulary_size() * int64_t{sizeof(float)};
    if (scorer.decoder < 0) {
      continue;
    }
    const DecoderPart& decoder = parts.decoder(scorer.decoder);
    for (const DecoderInput& input : decoder.inputs) {
      bytes += RowBytes(decoder.decoder.node(input.node).outputs[0]);
    }
  }
  return bytes;
}

// Bytes of an encoder that reads chunk by chunk, besides the source's features: states, twice
// while it runs, and a chunk.
int64_t ChunkBytes(const DecodeModel::Parts& parts) {
  const EncoderPart* const encoder = parts.chunk_encoder();
  if (encoder == nullptr) {
    return 0;
  }
  const StreamingPart& streaming = *encoder->streaming;
  return 2 * streaming.state_bytes() +
         (streaming.chunk + streaming.shift) * streaming.width * int64_t{sizeof(float)};
}

// Bytes of the lists of tokens that a plan holds for options. Sources of a call share it, but any
// of them may be the last request that reads it.
int64_t ListBytes(const search::FrameOptions& options) {
  constexpr int64_t kTokenBytes = sizeof(int32_t);
  constexpr int64_t kAutomatonBytes = 64;  // a node, its edge, and the phrase
  size_t tokens = options.suppressed.size() + options.suppressed_at_begin.size() +
                  options.shortlist.size() + options.prefix.size();
  for (const search::TokenSequence& sequence : options.suppressed_sequences) {
    tokens += sequence.size();
  }
  size_t hotwords = 0;
  for (const search::Hotword& hotword : options.hotwords) {
    hotwords += hotword.tokens.size();
  }
  return 2 * kTokenBytes * static_cast<int64_t>(tokens) +
         kAutomatonBytes * static_cast<int64_t>(hotwords) +
         (options.allowed != nullptr ? options.allowed->num_bytes() : 0);
}

// Bytes that a search over `frames` frames holds.
int64_t SearchBytes(const search::FrameOptions& options, int64_t frames, int64_t slot_bytes) {
  // A label of a hypothesis, with its time; of a frame as many as live on.
  constexpr int64_t kLabelBytes = 64;
  constexpr int64_t kSlotsPerHypothesis = 3;
  return options.beam_size * (kLabelBytes * frames + kSlotsPerHypothesis * slot_bytes) +
         ListBytes(options);
}

}  // namespace

int64_t PriceFrames(const FrameRequest& request) {
  const FramesPart& part = *request.model->parts().frames;
  const int64_t frames = request.source.source_length;
  const int64_t slot_bytes = part.transducer == nullptr ? 0 : SlotBytes(*part.transducer);
  int64_t bytes = frames * FrameBytes(part) + ChunkBytes(request.model->parts());
  for (const search::TokenSequence& target : request.targets) {
    const auto labels = static_cast<int64_t>(target.size());
    bytes += ScoringBytes(frames, labels) + slot_bytes * (labels + 1);
  }
  if (request.plan != nullptr) {
    const search::FrameOptions& options = request.plan->options();
    bytes += SearchBytes(options, frames, slot_bytes + ScorerBytes(request));
    bytes += request.wants_full_sum
                 ? options.n_best * (ScoringBytes(frames, frames) + slot_bytes * frames)
                 : 0;
  }
  return bytes;
}

int64_t PriceStream(const FrameRequest& request, int64_t frames) {
  // The request, its search, and what its caller is answered through.
  constexpr int64_t kOwnBytes = 16 << 10;
  const DecodeModel::Parts& parts = request.model->parts();
  const FramesPart& part = *parts.frames;
  if (frames == 0) {
    const EncoderPart* const encoder = parts.chunk_encoder();
    return kOwnBytes + ListBytes(request.plan->options()) +
           (encoder == nullptr ? 0 : encoder->streaming->state_bytes());
  }
  const int64_t slot_bytes = part.transducer == nullptr ? 0 : SlotBytes(*part.transducer);
  // What it holds of frames is bounded by what a sender may be ahead.
  return kOwnBytes + kHeldFrames * FrameBytes(part) + ChunkBytes(parts) +
         SearchBytes(request.plan->options(), frames, slot_bytes + ScorerBytes(request));
}

int CountFrameSteps(const FrameRequest& request) {
  const int frames = request.source.source_length;
  // A tagger's search reads positions backwards twice, and then forwards.
  const bool is_tagger = request.model->parts().frames->kind == search::FrameKind::kTags;
  const int phases = request.plan == nullptr ? 1 : is_tagger ? 3 : request.wants_full_sum ? 2 : 1;
  if (request.model->parts().frames->ctc.has_value()) {
    if (!request.row_scorers.empty()) {
      return phases * frames;
    }
    // A step of many long targets scores fewer frames.
    return phases * static_cast<int>((frames + kColumnFramesPerStep - 1) / kColumnFramesPerStep);
  }
  return phases * frames * request.scoring.max_symbols_per_frame;
}

void FrameRequest::SetUpScorers() {
  for (const search::ScorerWeight& wanted : plan->options().scorers) {
    row_scorers.push_back({model->parts().FindScorer(wanted.name)->decoder, {}});
  }
}

bool FrameRequest::wants_chunk() const {
  if (chunks == nullptr || is_answered || !chunks->has_chunk()) {
    return false;
  }
  // Frames of more than a chunk would only be held, of a stream that waits for room.
  const int64_t unread = num_frames - segment_begin - num_announced;
  return !is_stream() || unread <= model->parts().frames->chunk_frames;
}

bool FrameRequest::StartChunks() {
  if (chunks == nullptr) {
    return false;
  }
  chunks->Add(*std::move(source.encoder_input));
  chunks->Finish();
  source.encoder_input.reset();
  return true;
}

absl::Status FrameRequest::TakeChunk(const ops::ExecutionContext& context,
                                     const ops::Tensor& frames) {
  if (is_stream()) {
    is_complete = chunks->is_exhausted();
    return TakePiece(context, frames);
  }
  chunks->Keep(frames);
  return chunks->is_exhausted() ? TakeWhole(context, chunks->TakeKept()) : absl::OkStatus();
}

bool FrameRequest::Announce() {
  if (!is_stream()) {
    return false;
  }
  search::FrameSearch& search = *frame_search();
  const int rule = num_announced > 0 ? search::MetRule(call.endpoint, search.num_labels(),
                                                       search.trailing_blanks(), num_announced)
                                     : -1;
  if (rule >= 0 || num_announced >= most_frames) {
    was_cut = rule < 0 || call.endpoint[static_cast<size_t>(rule)].min_trailing_blanks == 0;
    search.Finish();
    return true;
  }
  if (needs_room()) {
    return false;
  }
  if (segment_begin + num_announced < num_frames) {
    search.AddFrames(1);
    ++num_announced;
    return true;
  }
  if (is_complete) {
    search.Finish();
  }
  return is_complete;
}

absl::Status FrameRequest::MakeRoom() {
  const int64_t frames =
      std::min(most_frames, std::max(priced_frames + kFewestPricedFrames, priced_frames * 3 / 2));
  const int64_t price = PriceStream(*this, frames);
  if (reserve != nullptr && !reserve(price - price_bytes)) {
    return status::WithReason(
        absl::ResourceExhaustedError(absl::StrCat(
            "there is no memory for more than ", num_announced, " frames of the stream's segment (",
            price, " bytes): max-state-bytes is used up")),
        status::reason::kOutOfMemory);
  }
  priced_frames = frames;
  price_bytes = price;
  return absl::OkStatus();
}

void FrameRequest::GiveBackRoom() {
  if (priced_frames <= kFewestPricedFrames) {
    return;
  }
  priced_frames = std::min(most_frames, kFewestPricedFrames);
  const int64_t price = PriceStream(*this, priced_frames);
  if (reserve != nullptr) {
    reserve(price - price_bytes);
  }
  price_bytes = price;
}

void FrameRequest::TakeResults() {
  found = DistinctTexts(
      *this, frame_search()->Results(),
      [this](const search::FrameHypothesis& one) { return model->target().Decode(one.labels); });
}

void FrameRequest::KeepSegment() {
  if (num_announced == 0) {
    return;
  }
  TakeResults();
  Segment& segment = ended.emplace_back();
  segment.first_frame = segment_begin;
  segment.num_frames = num_announced;
  segment.hypotheses = MakeHypotheses(*this);
}

void FrameRequest::LeaveSegment() {
  DropFrames(num_announced - first_held);
  segment_begin += num_announced;
  num_announced = 0;
  first_held = 0;
  stable.clear();
  is_done = is_complete && segment_begin == num_frames;
}

void FrameRequest::DropRead() {
  constexpr int64_t kAtOnce = 64;
  const int64_t count = std::min(frame_search()->frame(), num_announced) - first_held;
  if (count >= kAtOnce) {
    DropFrames(count);
    first_held += count;
  }
}

absl::Status FrameRequest::EnterPhase() {
  if (is_scoring) {
    is_done = is_scored();
    return absl::OkStatus();
  }
  if (is_stream() || !frame_search()->done()) {
    return absl::OkStatus();
  }
  TakeResults();
  if (!wants_full_sum || found.empty()) {
    is_done = true;
    return absl::OkStatus();
  }
  for (const search::FrameHypothesis& hypothesis : found) {
    targets.push_back(hypothesis.labels);
  }
  is_scoring = true;
  return StartScoring();
}

bool FrameRequest::Cut(v1::FinishReason why) {
  if (frame_search() == nullptr || is_answered || is_done || !is_encoded()) {
    return false;
  }
  if (!is_scoring) {
    TakeResults();
    reason = why;
  }
  if (is_stream()) {
    KeepSegment();
  }
  is_done = true;
  return true;
}

void FrameRequest::ReportProgress() {
  if (call.progress == nullptr || frame_search() == nullptr) {
    return;
  }
  Progress progress;
  progress.segments.swap(ended);
  const size_t known = stable.size();
  // A stream that is over has all labels in its segments, while its search is still that of the
  // last one.
  if (!is_stream() || !is_done) {
    frame_search()->AddStableLabels(stable);
  }
  if (stable.size() > known) {
    search::StableTokens::Piece& piece = progress.stable.emplace_back();
    piece.position = static_cast<int>(known);
    piece.tokens.assign(stable.begin() + static_cast<std::ptrdiff_t>(known), stable.end());
    if (first_token == absl::InfinitePast()) {
      first_token = SteadyNow();
    }
  }
  if (call.num_provisional > 0 && !is_done && !is_scoring) {
    std::vector<search::FrameHypothesis> alive = frame_search()->Results();
    // While nothing leads, as in silence, there is nothing to report.
    const size_t count = alive.empty() || alive[0].labels.empty() ? 0 : alive.size();
    alive.resize(std::min(count, static_cast<size_t>(call.num_provisional)));
    for (search::FrameHypothesis& hypothesis : alive) {
      Provisional& reported = progress.provisional.emplace_back();
      reported.tokens = std::move(hypothesis.labels);
      reported.score = hypothesis.score;
      reported.frames.reserve(hypothesis.times.size());
      for (const search::LabelTime& time : hypothesis.times) {
        reported.frames.push_back(static_cast<int32_t>(time.first_frame));
      }
    }
  }
  if (!progress.segments.empty() || !progress.stable.empty() || !progress.provisional.empty()) {
    call.progress(std::move(progress));
  }
}

absl::Status NoFrames(const PreparedSource& source) {
  return status::InvalidField("source", "is too short: the encoder makes no frame of ",
                              source.source_length, " positions");
}

}  // namespace beamwright::engine
