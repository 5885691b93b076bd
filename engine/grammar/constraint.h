// Constraint: answers are texts of a grammar. Which tokens may follow is found by one walk over the
// tree of their texts and kept for each state of the automaton; a token may end anywhere in a
// character. docs/decoding.md, 'Patterns and schemas'.
#ifndef BEAMWRIGHT_ENGINE_GRAMMAR_CONSTRAINT_H_
#define BEAMWRIGHT_ENGINE_GRAMMAR_CONSTRAINT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "engine/grammar/automaton.h"
#include "engine/grammar/program.h"
#include "engine/grammar/token_texts.h"

namespace beamwright::grammar {

// What options hold: the grammar, what tokens write, and what ends a text. Immutable.
class Constraint {
 public:
  // The most that a ConstrainedTexts of it comes to hold.
  static constexpr int64_t kMaskBytes = int64_t{4} << 20;
  static constexpr int64_t kMostBytes = kMaskBytes + (int64_t{8} << 20);

  // option: the field of DecodeOptions that asked for it. end_tokens: not empty.
  Constraint(std::string option, Program program, std::shared_ptr<const TokenTexts> texts,
             std::vector<int32_t> end_tokens, Automaton::Limits limits = {})
      : option_(std::move(option)),
        program_(std::make_shared<const Program>(std::move(program))),
        texts_(std::move(texts)),
        end_tokens_(std::move(end_tokens)),
        limits_(limits) {}

  const std::string& option() const { return option_; }

 private:
  friend class ConstrainedTexts;

  std::string option_;
  std::shared_ptr<const Program> program_;
  std::shared_ptr<const TokenTexts> texts_;
  std::vector<int32_t> end_tokens_;
  Automaton::Limits limits_;
};

// The texts that one search writes under a constraint. A state is one number, as processors keep
// it: not below 0. The states that earlier texts reached count towards the limits, so that each
// search has a separate object: an answer depends on its request alone. One thread at a time.
class ConstrainedTexts {
 public:
  explicit ConstrainedTexts(std::shared_ptr<const Constraint> constraint);

  const std::string& option() const { return constraint_->option(); }

  // The state before any token; begins_text: nothing is written before it.
  int64_t Start(bool begins_text) const;
  // The state after one more token. A token that is not allowed comes to a state without tokens.
  int64_t Next(int64_t state, int32_t token);
  // Appends the tokens that may follow, ascending; end tokens where the text is complete.
  void AppendAllowed(int64_t state, std::vector<int32_t>& tokens);
  bool IsComplete(int64_t state) const;

  // False: no tokens spell a text of the grammar. It gives up, with true, after a bounded search.
  bool MaySpell(bool begins_text);

 private:
  using Mask = std::vector<uint64_t>;

  // What a state is made of: the automaton's, whether nothing is written yet, and whether a space
  // is that is not shown if nothing follows.
  struct Parts {
    int32_t state = Automaton::kDead;
    bool begins = false;
    bool has_space = false;
  };
  static int64_t Pack(const Parts& parts);
  static Parts Unpack(int64_t state);

  const TokenTexts& texts() const { return *constraint_->texts_; }
  int32_t From(const Parts& parts);
  // Calls take(token, the automaton's state behind it) for all tokens that may follow; returns the
  // number of nodes that it came to.
  template <typename Take>
  int64_t Walk(const Parts& parts, const Take& take);
  const Mask& MaskOf(int64_t state);

  std::shared_ptr<const Constraint> constraint_;
  Automaton automaton_;
  absl::flat_hash_map<int64_t, Mask> masks_;
  std::vector<int32_t> path_;  // of a walk: states by depth
};

}  // namespace beamwright::grammar

#endif  // BEAMWRIGHT_ENGINE_GRAMMAR_CONSTRAINT_H_
