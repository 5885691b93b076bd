#include "engine/request/prefix_cache.h"

#include <algorithm>

namespace beamwright::engine {
namespace {

// Of the containers' nodes, for each entry.
constexpr int64_t kEntryBytes = 512;

size_t SharedTokens(const PrefixCache::Tokens& a, const PrefixCache::Tokens& b) {
  const auto end = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<size_t>(end.first - a.begin());
}

}  // namespace

PrefixCache::Found PrefixCache::Find(const std::string& origin, const Tokens& tokens) {
  Found found;
  absl::MutexLock lock(&mutex_);
  num_tokens_ += static_cast<int64_t>(tokens.size()) - 1;
  const auto prefixes = origins_.find(origin);
  if (prefixes == origins_.end()) {
    return found;
  }
  Prefixes& own = prefixes->second;
  size_t shared = 0;  // with any other prefix
  if (const auto next = own.lower_bound(tokens); next != own.end()) {
    shared = SharedTokens(tokens, next->first);
  }
  // Beginnings of `tokens` are in front of it, and longer ones behind shorter ones. What lies
  // between shares fewer tokens with each look.
  Tokens beginning = tokens;
  auto at = own.upper_bound(beginning);
  size_t num_read = 0;
  while (at != own.begin()) {
    --at;
    const size_t with = SharedTokens(beginning, at->first);
    shared = std::max(shared, with);
    if (with == at->first.size()) {
      uses_.splice(uses_.begin(), uses_, at->second.use);
      found.entry = at->second.entry;
      num_read = with - 1;
      num_found_ += static_cast<int64_t>(num_read);
      break;
    }
    beginning.resize(with);
    at = own.upper_bound(beginning);
  }
  if (shared < tokens.size() && shared > num_read + kLeastTokens) {
    found.branch = shared - 1;
  }
  return found;
}

void PrefixCache::Add(const std::string& origin, Tokens tokens,
                      std::shared_ptr<const Entry> entry) {
  auto bytes = kEntryBytes + static_cast<int64_t>(origin.size() + tokens.size() * sizeof(int32_t) +
                                                  entry->log_probs.size() * sizeof(float));
  for (const ops::Tensor& state : entry->states) {
    bytes += state.num_bytes();
  }
  absl::MutexLock lock(&mutex_);
  if (bytes > max_bytes_) {
    return;
  }
  if (const auto own = origins_.find(origin);
      own != origins_.end() && own->second.count(tokens) > 0) {
    return;  // another request read the same
  }
  while (bytes_ + bytes > max_bytes_) {
    DropOldest();
  }
  const auto [kept, is_new] = origins_[origin].emplace(std::move(tokens), Kept());
  uses_.emplace_front(origin, &kept->first);
  kept->second = {std::move(entry), bytes, uses_.begin()};
  bytes_ += bytes;
}

void PrefixCache::DropOldest() {
  const auto [origin, tokens] = uses_.back();
  const auto prefixes = origins_.find(origin);
  const auto kept = prefixes->second.find(*tokens);
  bytes_ -= kept->second.bytes;
  uses_.pop_back();
  prefixes->second.erase(kept);
  if (prefixes->second.empty()) {
    origins_.erase(prefixes);
  }
}

int64_t PrefixCache::num_bytes() const {
  absl::MutexLock lock(&mutex_);
  return bytes_;
}

int64_t PrefixCache::num_tokens() const {
  absl::MutexLock lock(&mutex_);
  return num_tokens_;
}

int64_t PrefixCache::num_found() const {
  absl::MutexLock lock(&mutex_);
  return num_found_;
}

}  // namespace beamwright::engine
