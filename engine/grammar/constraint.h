// Constraint: answers are texts of a grammar. Which tokens may follow is found by one walk over the
// tree of their texts and kept for each state of the automaton; a token may end anywhere in a
// character. docs/decoding.md, 'Patterns and schemas'.
#ifndef BEAMWRIGHT_ENGINE_GRAMMAR_CONSTRAINT_H_
#define BEAMWRIGHT_ENGINE_GRAMMAR_CONSTRAINT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "engine/grammar/program.h"

namespace beamwright::grammar {

// TokenTexts: what the tokens of a vocabulary write, as trees over bytes, so that one pass finds
// all tokens that an automaton can read: a beginning that it cannot read bars all tokens below.

// Immutable once made. Tokens that write nothing, as special tokens do, are in no tree.
class TokenTexts {
 public:
  // The bytes that a token writes behind others, or (is_first) where it begins a text.
  using Writer = std::function<std::string(int32_t token, bool is_first)>;

  // A byte that some tokens have behind the same bytes. In the order of a walk that goes down
  // first, so that a node's own are those up to `end`.
  struct Node {
    uint8_t byte = 0;
    uint32_t depth = 0;        // bytes, this one included
    uint32_t end = 0;          // the first node that is not below
    uint32_t first_token = 0;  // of the tokens that end here, in `tokens`
    uint32_t tokens_end = 0;
  };
  struct Tree {
    std::vector<Node> nodes;  // number 0: the root, of depth 0
    std::vector<int32_t> tokens;
    uint32_t deepest = 0;
  };

  // drops_last_space: a space at the end of a whole text is not shown. Tokens' own last spaces are
  // then left out of the trees: has_space.
  TokenTexts(int32_t count, const Writer& writer, bool drops_last_space);

  int32_t size() const { return static_cast<int32_t>(has_space_.size()); }
  // begins: of a text's first token. Where tokens write something else there, those that begin with
  // a space, or write nothing, are left out: codecs may not show the spaces that a text begins
  // with, and such a text is not the one that the automaton has read. Where all tokens write the
  // same everywhere, there is one tree.
  const Tree& tree(bool begins) const { return forms_[begins && has_first_form_ ? 1 : 0].tree; }
  // False: the token is not in the tree.
  bool Find(int32_t token, bool begins, absl::string_view& text) const;
  bool has_space(int32_t token) const { return has_space_[static_cast<size_t>(token)]; }

 private:
  struct Form {
    Tree tree;
    std::string bytes;             // of all tokens
    std::vector<uint32_t> starts;  // by token; one more
  };

  static Tree MakeTree(const Form& form, const std::vector<bool>& has_space);

  Form forms_[2];
  bool has_first_form_ = false;
  std::vector<bool> has_space_;
};

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
