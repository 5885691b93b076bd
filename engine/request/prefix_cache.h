// PrefixCache: the states that models had behind target prefixes (prompts), for requests that
// begin with the same tokens. A state has the bits that reading the tokens again would give, so
// answers are the same with and without it. docs/decoding.md, 'States'.
#ifndef BEAMWRIGHT_ENGINE_REQUEST_PREFIX_CACHE_H_
#define BEAMWRIGHT_ENGINE_REQUEST_PREFIX_CACHE_H_

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "ops/tensor/tensor.h"

namespace beamwright::engine {

// Thread-safe.
class PrefixCache {
 public:
  // Shorter prefixes are read again rather than kept.
  static constexpr size_t kLeastTokens = 8;

  using Tokens = std::vector<int32_t>;

  // Of tokens t_0 (which the first step reads), ..., t_n: the model has read all but t_n.
  struct Entry {
    std::vector<ops::Tensor> states;  // [1, ...] each; written by no one
    std::vector<float> log_probs;     // of t_1, ..., t_n
  };

  struct Found {
    std::shared_ptr<const Entry> entry;  // null: nothing is kept
    // The longest beginning that another prefix shares, t_0, ..., t_n, is worth an entry: read to
    // there, n tokens, and Add it. 0: it is not.
    size_t branch = 0;
  };

  // max_bytes: of states, log-probabilities and tokens; those used longest ago leave first.
  explicit PrefixCache(int64_t max_bytes) : max_bytes_(max_bytes) {}

  // The entry of the most tokens that `tokens`, t_0 and the target prefix, begin with. origin:
  // what t_0 is read behind; prefixes of different origins share nothing.
  Found Find(const std::string& origin, const Tokens& tokens);
  void Add(const std::string& origin, Tokens tokens, std::shared_ptr<const Entry> entry);

  int64_t num_bytes() const;
  // Tokens of all prefixes that were looked up, and those of them that were found.
  int64_t num_tokens() const;
  int64_t num_found() const;

 private:
  struct Kept;
  // Prefixes of one origin in the order of their tokens: neighbours share most of them.
  using Prefixes = std::map<Tokens, Kept>;
  using Uses = std::list<std::pair<std::string, const Tokens*>>;  // the latest first
  struct Kept {
    std::shared_ptr<const Entry> entry;
    int64_t bytes = 0;
    Uses::iterator use;
  };

  void DropOldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int64_t max_bytes_;
  mutable absl::Mutex mutex_;
  std::map<std::string, Prefixes> origins_ ABSL_GUARDED_BY(mutex_);
  Uses uses_ ABSL_GUARDED_BY(mutex_);
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t num_tokens_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t num_found_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_REQUEST_PREFIX_CACHE_H_
