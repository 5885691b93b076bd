// FrameFeed: the frames of a source that arrives while it is searched, on their way from the thread
// that receives them to the driver that reads them. It is where a stream's two sides meet: one adds
// pieces whenever they come, the other takes what is there, between two steps, or leaves the
// request aside until there is something to take. A request that is aside costs nothing but what it
// holds: no step visits it.
#ifndef BEAMWRIGHT_ENGINE_REQUEST_FRAME_FEED_H_
#define BEAMWRIGHT_ENGINE_REQUEST_FRAME_FEED_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "ops/tensor/tensor.h"

namespace beamwright::engine {

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

  // on_room: called on the engine's thread when it was full and is not any more; it must return at
  // once. May be null.
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

  // For the engine.
  struct News {
    std::vector<ops::Tensor> pieces;
    bool is_complete = false;
  };
  News Take();
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
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_complete_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_given_up_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_news_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<WokenRequests> woken_ ABSL_GUARDED_BY(mutex_);  // null: it is not aside
  uint64_t number_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_REQUEST_FRAME_FEED_H_
