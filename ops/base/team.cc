#include "ops/base/team.h"

#include <unistd.h>

#include <algorithm>
#include <system_error>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace beamwright {
namespace {

// Whether the thread is within a loop's body.
thread_local bool is_within = false;

void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// Looks at `done` again and again for Team::kLookout at most; what it said last.
template <typename Done>
bool LookOut(const Done& done) {
  constexpr int kLooks = 128;  // some microseconds
  const auto end = std::chrono::steady_clock::now() + Team::kLookout;
  while (true) {
    for (int i = 0; i < kLooks; ++i) {
      if (done()) {
        return true;
      }
      Pause();
    }
    if (std::chrono::steady_clock::now() >= end) {
      return done();
    }
    std::this_thread::yield();
  }
}

}  // namespace

Team& Team::OfThread() {
  // What fork copies has no members: they stay with the process that started them.
  struct Owned {
    std::unique_ptr<Team> team = std::make_unique<Team>();
    pid_t process = getpid();
    ~Owned() {
      if (getpid() != process) {
        static_cast<void>(team.release());
      }
    }
  };
  static thread_local Owned owned;
  return *owned.team;
}

Team::~Team() {
  for (const auto& member : members_) {
    member->state.store(kEnding);
    member->state.notify_one();
  }
  for (const auto& member : members_) {
    member->thread.join();
  }
}

bool Team::IsWithin() { return is_within; }

bool Team::IsAwake() const {
  return std::any_of(members_.begin(), members_.end(), [](const auto& member) {
    return member->state.load(std::memory_order_relaxed) == kFree;
  });
}

int64_t Team::PassUp(int64_t work) {
  const auto now = std::chrono::steady_clock::now();
  passed_up_ = now - last_passed_up_ < kLookout ? passed_up_ + work : work;
  last_passed_up_ = now;
  return passed_up_;
}

void Team::Grow(size_t members) {
  while (members_.size() < members) {
    auto member = std::make_unique<Member>();
    Member& own = *member;
    const size_t number = members_.size() + 1;
    members_.push_back(std::move(member));
    try {
      own.thread = std::thread([this, &own, number] { Work(own, number); });
    } catch (const std::system_error&) {
      members_.pop_back();  // no thread to be had: fewer share the loop
      return;
    }
  }
}

void Team::Run(int threads, int64_t count, absl::FunctionRef<void(int64_t)> body) {
  const auto most = static_cast<size_t>(std::min<int64_t>(threads, count));
  if (most < 2 || is_within) {
    for (int64_t i = 0; i < count; ++i) {
      body(i);
    }
    return;
  }
  Grow(most - 1);
  if (parts_.size() < most) {
    parts_ = std::vector<Parts>(most);
  }
  num_parts_ = most;
  for (size_t i = 0; i < most; ++i) {
    const auto at = static_cast<int64_t>(i);
    const auto of = static_cast<int64_t>(most);
    parts_[i].next.store(count * at / of, std::memory_order_relaxed);
    parts_[i].end = count * (at + 1) / of;
  }
  body_ = &body;
  const size_t helpers = std::min(most - 1, members_.size());
  for (size_t i = 0; i < helpers; ++i) {
    std::atomic<uint32_t>& state = members_[i]->state;
    if (state.exchange(kOffered, std::memory_order_acq_rel) == kAsleep) {
      state.notify_one();
    }
  }
  DoParts(0);
  for (size_t i = 0; i < helpers; ++i) {
    std::atomic<uint32_t>& state = members_[i]->state;
    uint32_t seen = kOffered;
    if (state.compare_exchange_strong(seen, kFree, std::memory_order_acq_rel)) {
      continue;
    }
    const auto is_done = [&] { return state.load(std::memory_order_acquire) != kWorking; };
    if (!LookOut(is_done)) {
      state.wait(kWorking, std::memory_order_acquire);
    }
  }
}

void Team::DoParts(size_t first) {
  is_within = true;
  for (size_t i = 0; i < num_parts_; ++i) {
    Parts& parts = parts_[(first + i) % num_parts_];
    while (true) {
      // Not beyond the end, where others look as well.
      if (parts.next.load(std::memory_order_relaxed) >= parts.end) {
        break;
      }
      const int64_t part = parts.next.fetch_add(1, std::memory_order_relaxed);
      if (part >= parts.end) {
        break;
      }
      (*body_)(part);
    }
  }
  is_within = false;
}

void Team::Work(Member& member, size_t number) {
  std::atomic<uint32_t>& state = member.state;
  while (true) {
    const auto is_called = [&] {
      const uint32_t now = state.load(std::memory_order_acquire);
      return now == kOffered || now == kEnding;
    };
    if (!LookOut(is_called)) {
      uint32_t seen = kFree;
      if (state.compare_exchange_strong(seen, kAsleep, std::memory_order_acq_rel)) {
        state.wait(kAsleep, std::memory_order_acquire);
      }
    }
    uint32_t seen = kOffered;
    if (state.compare_exchange_strong(seen, kWorking, std::memory_order_acq_rel)) {
      DoParts(number % num_parts_);
      state.store(kFree);  // sequentially consistent: before it is looked who waits
      state.notify_one();
    } else if (seen == kEnding) {
      return;
    }
  }
}

}  // namespace beamwright
