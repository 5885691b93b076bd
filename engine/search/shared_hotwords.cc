#include "engine/search/shared_hotwords.h"

#include <algorithm>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "absl/synchronization/mutex.h"
#include "engine/search/hotwords.h"

namespace beamwright::search {
namespace {

using Phrases = std::vector<Hotword>;

// An automaton with what it was made of.
struct Compiled {
  explicit Compiled(const Phrases& from) : phrases(from), automaton(from) {}

  Phrases phrases;
  Hotwords automaton;
};

size_t HashOf(const Phrases& phrases) {
  size_t hash = phrases.size();
  for (const Hotword& phrase : phrases) {
    hash = absl::HashOf(hash, phrase.tokens, phrase.bonus);
  }
  return hash;
}

bool AreEqual(const Phrases& a, const Phrases& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Hotword& x, const Hotword& y) {
    return x.bonus == y.bonus && x.tokens == y.tokens;
  });
}

class Table {
 public:
  std::shared_ptr<const Compiled> Get(const Phrases& phrases) {
    const size_t hash = HashOf(phrases);
    if (std::shared_ptr<const Compiled> known = Find(hash);
        known != nullptr && AreEqual(known->phrases, phrases)) {
      return known;
    }
    // Outside of the lock: others need not wait. Of two that compile the same the last is kept.
    std::shared_ptr<const Compiled> made(new Compiled(phrases), [this, hash](const Compiled* old) {
      delete old;
      Forget(hash);
    });
    absl::MutexLock lock(&mutex_);
    compiled_[hash] = made;
    return made;
  }

  size_t size() const {
    absl::MutexLock lock(&mutex_);
    return compiled_.size();
  }

 private:
  std::shared_ptr<const Compiled> Find(size_t hash) const {
    absl::MutexLock lock(&mutex_);
    const auto found = compiled_.find(hash);
    return found == compiled_.end() ? nullptr : found->second.lock();
  }

  void Forget(size_t hash) {
    absl::MutexLock lock(&mutex_);
    if (const auto found = compiled_.find(hash);
        found != compiled_.end() && found->second.expired()) {
      compiled_.erase(found);
    }
  }

  mutable absl::Mutex mutex_;
  absl::flat_hash_map<size_t, std::weak_ptr<const Compiled>> compiled_ ABSL_GUARDED_BY(mutex_);
};

Table& SharedTable() {
  static auto* const table = new Table();  // never destroyed: requests may outlive main's statics
  return *table;
}

// Hands everything on to the automaton.
class Shared final : public Processor {
 public:
  explicit Shared(std::shared_ptr<const Compiled> compiled)
      : compiled_(std::move(compiled)), automaton_(compiled_->automaton) {}

  absl::string_view option() const override { return automaton_.option(); }
  int64_t Start() const override { return automaton_.Start(); }
  int64_t Next(int64_t node, int32_t token) const override { return automaton_.Next(node, token); }
  void Apply(const RowView& row, RuleBuffer& rules) const override { automaton_.Apply(row, rules); }
  double Reward(int64_t node, int32_t token, float log_prob) const override {
    return automaton_.Reward(node, token, log_prob);
  }
  double Promise(int64_t node) const override { return automaton_.Promise(node); }
  void AddContinuations(int64_t node, std::vector<int32_t>& tokens) const override {
    automaton_.AddContinuations(node, tokens);
  }
  bool gives_rewards() const override { return automaton_.gives_rewards(); }
  double max_gain() const override { return automaton_.max_gain(); }

 private:
  const std::shared_ptr<const Compiled> compiled_;
  const Hotwords& automaton_;
};

}  // namespace

std::unique_ptr<const Processor> SharedHotwords(const std::vector<Hotword>& phrases) {
  return std::make_unique<Shared>(SharedTable().Get(phrases));
}

size_t NumSharedHotwords() { return SharedTable().size(); }

}  // namespace beamwright::search
