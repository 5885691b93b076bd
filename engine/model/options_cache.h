// OptionsCache: what the options of recent requests came to. Clients ask for the same in call after
// call, and checking and merging dozens of fields costs about as much as a step of a small model.
#ifndef BEAMWRIGHT_ENGINE_MODEL_OPTIONS_CACHE_H_
#define BEAMWRIGHT_ENGINE_MODEL_OPTIONS_CACHE_H_

#include <array>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace beamwright::engine {

struct ResolvedOptions;

// Of one model. Thread-safe.
class OptionsCache {
 public:
  // Of longer keys, those of requests with lists, the last one is kept, so that they
  // hold little memory; and none that is longer still.
  static constexpr size_t kLongKey = 512;
  static constexpr size_t kLongestKey = size_t{64} << 10;

  // `key`: the options as they were sent, in protobuf's binary form. Null if they are not known.
  std::shared_ptr<const ResolvedOptions> Find(const std::string& key) const {
    absl::ReaderMutexLock lock(&mutex_);
    for (const Entry& entry : entries_) {
      if (entry.resolved != nullptr && entry.key == key) {
        return entry.resolved;
      }
    }
    return nullptr;
  }

  // In the place of what was added longest ago, or of the last long key.
  void Add(std::string key, std::shared_ptr<const ResolvedOptions> resolved) {
    if (key.size() > kLongestKey) {
      return;
    }
    absl::MutexLock lock(&mutex_);
    if (key.size() > kLongKey) {
      entries_.back() = {std::move(key), std::move(resolved)};
      return;
    }
    entries_[next_] = {std::move(key), std::move(resolved)};
    next_ = (next_ + 1) % (entries_.size() - 1);
  }

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const ResolvedOptions> resolved;
  };

  mutable absl::Mutex mutex_;
  std::array<Entry, 9> entries_ ABSL_GUARDED_BY(mutex_);  // the last one: of a long key
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
};

// What follows from a model alone and is made when it is first asked for. Thread-safe; callers wait
// for each other.
template <typename T>
class MadeOnce {
 public:
  // make: returns what is kept, or null, which is not kept.
  template <typename Make>
  std::shared_ptr<const T> Get(const Make& make) const {
    absl::MutexLock lock(&mutex_);
    if (made_ == nullptr) {
      made_ = make();
    }
    return made_;
  }

 private:
  mutable absl::Mutex mutex_;
  mutable std::shared_ptr<const T> made_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_MODEL_OPTIONS_CACHE_H_
