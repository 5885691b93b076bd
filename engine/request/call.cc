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

#include <algorithm>

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
    most_ = std::max(most_, bytes_ + unread_);
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

bool FrameFeed::is_full() const { return num_bytes() >= kFullBytes; }

int64_t FrameFeed::num_bytes() const {
  absl::MutexLock lock(&mutex_);
  return bytes_ + unread_;
}

FrameFeed::News FrameFeed::Take() {
  News news;
  absl::MutexLock lock(&mutex_);
  news.pieces.swap(pieces_);
  news.is_complete = is_complete_;
  unread_ += std::exchange(bytes_, 0);
  has_news_ = false;
  return news;
}

void FrameFeed::SetUnread(int64_t bytes) {
  bool has_room = false;
  {
    absl::MutexLock lock(&mutex_);
    const bool was_full = bytes_ + unread_ >= kFullBytes;
    unread_ = bytes;
    const int64_t left = bytes_ + unread_;
    has_room = (was_full && left < kFullBytes) || (left == 0 && most_ >= kFewBytes);
    most_ = left == 0 ? 0 : most_;
  }
  if (has_room && on_room_ != nullptr) {
    on_room_();
  }
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
