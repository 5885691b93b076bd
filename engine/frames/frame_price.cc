// The memory that a request searched by frames may take at most, which admission reserves before it
// runs. PriceFrames is for whole sources, PriceStream for a stream's segment of a number of frames.
//
// A price is the sum of: frames (FrameBytes: the scores, or what the joiner needs of each), the
// encoder's states and chunk (ChunkBytes), the search's hypotheses with the predictor's and
// scorers' states (SearchBytes, SlotBytes, ScorerBytes), lists of tokens that options name
// (ListBytes), and the forward algorithm of scored targets (ScoringBytes).
//
// CountFrameSteps is the number of steps, for the forecast of the time that a request takes.
#include "engine/frames/frame_price.h"

#include <algorithm>

#include "engine/frames/column_request.h"
#include "engine/model/parts.h"

namespace beamwright::engine {
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

}  // namespace beamwright::engine
