// States as data: bytes that leave the engine and come back, and the states behind target prefixes,
// kept for later requests.
#ifndef BEAMWRIGHT_ENGINE_REQUEST_SAVED_STATE_H_
#define BEAMWRIGHT_ENGINE_REQUEST_SAVED_STATE_H_

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "engine/model/parts.h"
#include "ops/tensor/tensor.h"

namespace beamwright::engine {

// States as data: what a recurrent model knows behind some tokens, as bytes that leave the engine
// and come back, so that a conversation goes on anywhere. docs/decoding.md, 'States'.

// Behind n tokens, the begin token first: the model has read all but the last of them, which the
// next step reads. So the next request can begin without a token.
struct SavedState {
  int32_t next_token = 0;
  int64_t num_read = 0;
  std::vector<ops::Tensor> states;  // [1, ...] each, in the order of the body's carried()
  std::string signature;  // of one that was read: what distinguishes it from others of the model

  int64_t num_bytes() const;
};

// Tensors with separate buffers: the next step may write into those of a row.
std::vector<ops::Tensor> CopyStates(const std::vector<ops::Tensor>& states);

// InvalidArgument naming `field`: the model has an encoder, or states that grow, that have no
// constant start, or that are not all that a step reads.
absl::Status CheckPortable(const DecodeModel& model, absl::string_view field);

// For ReadState of the same version of the model in the same numerics class, signed with `key`.
std::string WriteState(const DecodeModel& model, absl::string_view key, const SavedState& state);

// InvalidArgument naming source.state: it was changed or has another key; it is of another model,
// version or numerics class; the model has no portable states.
absl::StatusOr<SavedState> ReadState(const DecodeModel& model, absl::string_view key,
                                     absl::string_view bytes);

// A key for an engine that was given none.
std::string DrawStateKey();

// PrefixCache: the states that models had behind target prefixes (prompts), for requests that
// begin with the same tokens. A state has the bits that reading the tokens again would give, so
// answers are the same with and without it. docs/decoding.md, 'States'.

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

#endif  // BEAMWRIGHT_ENGINE_REQUEST_SAVED_STATE_H_
