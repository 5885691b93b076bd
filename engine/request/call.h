// What a caller says of one request besides source and options, and how it is answered.
#ifndef BEAMWRIGHT_ENGINE_REQUEST_CALL_H_
#define BEAMWRIGHT_ENGINE_REQUEST_CALL_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "beamwright/v1/decode.pb.h"
#include "engine/request/frame_feed.h"
#include "engine/request/tenant.h"
#include "engine/search/beam_search.h"
#include "engine/search/frames/frame_search.h"

namespace beamwright::engine {

using DecodeCallback = std::function<void(absl::StatusOr<v1::Decoded>)>;
using ScoreCallback = std::function<void(absl::StatusOr<v1::Scored>)>;

// A part of a source that arrives while it is searched.
struct Segment {
  int64_t first_frame = 0;  // in the source
  int64_t num_frames = 0;
  // Best first; their times count from first_frame.
  std::vector<v1::Hypothesis> hypotheses;
};

// A hypothesis as it stands.
struct Provisional {
  std::vector<int32_t> tokens;
  // Of a search by frames: the frame in which each token begins, from that of the segment.
  std::vector<int32_t> frames;
  double score = 0;
};

// What a stream receives after a step.
struct Progress {
  // Of a source that arrives: segments that ended. What follows is of the one behind them.
  std::vector<Segment> segments;
  // Tokens that can no longer change, each piece going on where the one before it (of its sample)
  // ended (docs/decoding.md, 'Streaming').
  std::vector<search::StableTokens::Piece> stable;
  // As many as were asked for and are there, best first; none while the best has no token.
  std::vector<Provisional> provisional;
  // What ends texts; null: nothing does. prefix_length: tokens that it does not look at.
  std::shared_ptr<const search::StopStrings> stop_strings;
  size_t prefix_length = 0;
};

struct CallOptions {
  // By SteadyNow (ops/base/steady_time.h). When the answer is of no use any more: DeadlineExceeded
  // at the next step, or within the one under way if that takes longer than a tenth of a second.
  // With deadline_result best-so-far the search is cut a tenth of the time before it, at least 5
  // and at most 100 ms, so that the answer still gets there.
  absl::Time deadline = absl::InfiniteFuture();
  // Of a caller that may give up: Cancelled as well, or DeadlineExceeded where it gave up
  // because of the deadline. May be null.
  std::shared_ptr<const CancelFlag> cancelled;
  // Whose share the request takes; null: that of everybody without a name.
  TenantPtr tenant;
  int priority = kNormalPriority;
  // Sources of the same call (not 0) take turns with other calls as one, however many they are.
  uint64_t call = 0;
  // Calls of the same client (not 0), such as a connection, take turns with others as one. 0: the
  // call alone is one.
  uint32_t client = 0;
  // Called on the engine's thread after each step that has news, before the answer is given; it
  // must return at once. Null: no progress. Decoding only.
  std::function<void(Progress)> progress;
  // Hypotheses as they stand that progress reports, at most; a search of steps reports one.
  int num_provisional = 0;
  // Of a source that arrives while it is searched (Engine::Recognize): its frames, and where
  // segments end.
  std::shared_ptr<FrameFeed> feed;
  std::vector<search::EndpointRule> endpoint;
  // Filled in until the answer is given, up to which it must live. Null: not measured.
  Timeline* timeline = nullptr;

  bool IsCancelled() const { return cancelled != nullptr && cancelled->cancelled(); }
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_REQUEST_CALL_H_
