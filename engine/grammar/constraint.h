// Constraint: answers are texts of a grammar. Which tokens may follow is found by one walk over the
// tree of their texts and kept for each state of the automaton; a token may end anywhere in a
// character. docs/decoding.md, 'Patterns and schemas'.
#ifndef BEAMWRIGHT_ENGINE_GRAMMAR_CONSTRAINT_H_
#define BEAMWRIGHT_ENGINE_GRAMMAR_CONSTRAINT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "engine/grammar/automaton.h"
#include "engine/grammar/program.h"
#include "engine/grammar/token_texts.h"

namespace beamwright::grammar {

// Thread-safe. A state is one number, as processors keep it: not below 0. The states that earlier
// texts came to count towards the limits, so that each search has a constraint to itself (Fresh):
// an answer depends on its request alone.
class Constraint {
 public:
  // The most that it comes to hold.
  static constexpr int64_t kMaskBytes = int64_t{4} << 20;
  static constexpr int64_t kMostBytes = kMaskBytes + (int64_t{8} << 20);

  // option: the field of DecodeOptions that asked for it. end_tokens: not empty.
  Constraint(std::string option, Program program, std::shared_ptr<const TokenTexts> texts,
             std::vector<int32_t> end_tokens, Automaton::Limits limits = {});
  // The same constraint before any text; it shares the grammar and the tokens' texts.
  std::shared_ptr<const Constraint> Fresh() const;

  const std::string& option() const { return option_; }

  // The state before any token; begins_text: nothing is written before it.
  int64_t Start(bool begins_text) const;
  // The state after one more token. A token that is not allowed comes to a state without tokens.
  int64_t Next(int64_t state, int32_t token) const;
  // Appends the tokens that may follow, ascending; end tokens where the text is complete.
  void AppendAllowed(int64_t state, std::vector<int32_t>& tokens) const;
  bool IsComplete(int64_t state) const;

  // False: no tokens spell a text of the grammar. It gives up, with true, after a bounded search.
  bool MaySpell(bool begins_text) const;

 private:
  using Mask = std::vector<uint64_t>;

  Constraint(std::string option, std::shared_ptr<const Program> program,
             std::shared_ptr<const TokenTexts> texts, std::vector<int32_t> end_tokens,
             Automaton::Limits limits);

  // What a state is made of: the automaton's, whether nothing is written yet, and whether a space
  // is that is not shown if nothing follows.
  struct Parts {
    int32_t state = Automaton::kDead;
    bool begins = false;
    bool has_space = false;
  };
  static int64_t Pack(const Parts& parts);
  static Parts Unpack(int64_t state);

  int32_t From(const Parts& parts) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Calls take(token, the automaton's state behind it) for all tokens that may follow; returns the
  // number of nodes that it came to.
  template <typename Take>
  int64_t Walk(const Parts& parts, const Take& take) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  const Mask& MaskOf(int64_t state) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string option_;
  const std::shared_ptr<const Program> program_;
  const std::shared_ptr<const TokenTexts> texts_;
  const std::vector<int32_t> end_tokens_;
  const Automaton::Limits limits_;
  mutable absl::Mutex mutex_;
  mutable Automaton automaton_ ABSL_GUARDED_BY(mutex_);
  mutable absl::flat_hash_map<int64_t, Mask> masks_ ABSL_GUARDED_BY(mutex_);
  mutable std::vector<int32_t> path_ ABSL_GUARDED_BY(mutex_);  // of a walk: states by depth
};

}  // namespace beamwright::grammar

#endif  // BEAMWRIGHT_ENGINE_GRAMMAR_CONSTRAINT_H_
