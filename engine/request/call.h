// What a caller says of one request besides source and options, how it is answered, and how frames
// of a source that arrives while it is searched get to the engine.
#ifndef BEAMWRIGHT_ENGINE_REQUEST_CALL_H_
#define BEAMWRIGHT_ENGINE_REQUEST_CALL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "beamwright/v1/decode.pb.h"
#include "engine/request/tenant.h"
#include "engine/search/beam_search.h"
#include "engine/search/frames/frame_search.h"
#include "ops/tensor/tensor.h"

namespace beamwright::engine {

// FrameFeed: the frames of a source that arrives while it is searched, on their way from the thread
// that receives them to the driver that reads them. It is where a stream's two sides meet: one adds
// pieces whenever they come, the other takes what is there, between two steps, or leaves the
// request aside until there is something to take. A request that is aside costs nothing but what it
// holds: no step visits it.

// Numbers of requests that were aside and have news. Thread-safe.
class WokenRequests {
 public:
  void Add(uint64_t number);
  bool empty() const;
  // All of them, since the last time.
  std::vector<uint64_t> Take();

 private:
  mutable absl::Mutex mutex_;
  std::vector<uint64_t> numbers_ ABSL_GUARDED_BY(mutex_);
};

// Thread-safe.
class FrameFeed {
 public:
  // More than this is not taken from a sender before some of it is read.
  static constexpr int64_t kFullBytes = int64_t{1} << 20;
  // Fewer bytes are not worth a word that all of them were read.
  static constexpr int64_t kFewBytes = int64_t{64} << 10;

  // on_room: called on the engine's thread when it was full and is not any more, or when all of
  // many bytes were read; it must return at once. May be null.
  explicit FrameFeed(std::function<void()> on_room = nullptr) : on_room_(std::move(on_room)) {}

  // For the sender. The next frames, [1, frames, width]; not after Finish.
  void Add(ops::Tensor piece);
  // The source is complete.
  void Finish();
  // The caller has given the request up, and its flag says so. The request is not left aside any
  // more: the engine may have looked at the flag just before it takes the last news.
  void GiveUp();
  // Whether the sender should wait for on_room.
  bool is_full() const;
  // Of pieces that were not read, also those that the engine has taken.
  int64_t num_bytes() const;

  // For the engine.
  struct News {
    std::vector<ops::Tensor> pieces;
    bool is_complete = false;
  };
  News Take();
  // `bytes` of the pieces that were taken are still to be read.
  void SetUnread(int64_t bytes);
  // Leaves the request aside: with the next news, its number is added to `woken`. False: there are
  // some already, or it was given up.
  bool SetAside(std::shared_ptr<WokenRequests> woken, uint64_t number);
  // Called when a request that was aside has news. Before the request is queued; the engine, whose
  // it is, must outlive who adds.
  void SetBell(std::function<void()> bell) { bell_ = std::move(bell); }

 private:
  // Notifies the driver that set the request aside, once.
  void Ring();

  const std::function<void()> on_room_;
  std::function<void()> bell_;
  mutable absl::Mutex mutex_;
  std::vector<ops::Tensor> pieces_ ABSL_GUARDED_BY(mutex_);
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;   // of them
  int64_t unread_ ABSL_GUARDED_BY(mutex_) = 0;  // of those that were taken
  int64_t most_ ABSL_GUARDED_BY(mutex_) = 0;    // of both, since all was read
  bool is_complete_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_given_up_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_news_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<WokenRequests> woken_ ABSL_GUARDED_BY(mutex_);  // null: it is not aside
  uint64_t number_ ABSL_GUARDED_BY(mutex_) = 0;
};

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
  int num_sources = 1;  // of the call
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
