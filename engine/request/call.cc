// What a stream's call hands to the engine while its request runs: pieces of features, and at last
// the end.
//
// The call's thread adds pieces; the worker takes all of them at once (Take). A request without
// news is set aside and costs the worker nothing (SetAside). Ring, after each addition, lists it in
// WokenRequests and rings the bell, so that the worker picks it up again. Both look under one
// mutex: either SetAside sees the news, or Ring sees the request that was set aside.
//
// A feed that is full stops its reader; on_room_ is called when pieces were taken.
#include "engine/request/call.h"

namespace beamwright::engine {

void WokenRequests::Add(uint64_t number) {
  absl::MutexLock lock(&mutex_);
  numbers_.push_back(number);
}

bool WokenRequests::empty() const {
  absl::MutexLock lock(&mutex_);
  return numbers_.empty();
}

std::vector<uint64_t> WokenRequests::Take() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(numbers_, {});
}

void FrameFeed::Ring() {
  std::shared_ptr<WokenRequests> woken;
  uint64_t number = 0;
  {
    absl::MutexLock lock(&mutex_);
    has_news_ = true;
    woken = std::exchange(woken_, nullptr);
    number = number_;
  }
  if (woken != nullptr) {
    woken->Add(number);
    bell_();
  }
}

void FrameFeed::Add(ops::Tensor piece) {
  {
    absl::MutexLock lock(&mutex_);
    bytes_ += piece.num_bytes();
    pieces_.push_back(std::move(piece));
  }
  Ring();
}

void FrameFeed::Finish() {
  {
    absl::MutexLock lock(&mutex_);
    is_complete_ = true;
  }
  Ring();
}

void FrameFeed::GiveUp() {
  {
    absl::MutexLock lock(&mutex_);
    is_given_up_ = true;
  }
  Ring();
}

bool FrameFeed::is_full() const {
  absl::MutexLock lock(&mutex_);
  return bytes_ >= kFullBytes;
}

FrameFeed::News FrameFeed::Take() {
  News news;
  bool was_full = false;
  {
    absl::MutexLock lock(&mutex_);
    news.pieces.swap(pieces_);
    news.is_complete = is_complete_;
    was_full = bytes_ >= kFullBytes;
    bytes_ = 0;
    has_news_ = false;
  }
  if (was_full && on_room_ != nullptr) {
    on_room_();
  }
  return news;
}

bool FrameFeed::SetAside(std::shared_ptr<WokenRequests> woken, uint64_t number) {
  absl::MutexLock lock(&mutex_);
  if (has_news_ || is_given_up_) {
    return false;
  }
  woken_ = std::move(woken);
  number_ = number;
  return true;
}

}  // namespace beamwright::engine
