// TokenTexts: what the tokens of a vocabulary write, as trees over bytes, so that one pass finds
// all tokens that an automaton can read: a beginning that it cannot read bars all tokens below.
#ifndef BEAMWRIGHT_ENGINE_GRAMMAR_TOKEN_TEXTS_H_
#define BEAMWRIGHT_ENGINE_GRAMMAR_TOKEN_TEXTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace beamwright::grammar {

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

// Made when it is first asked for. Thread-safe.
class SharedTokenTexts {
 public:
  std::shared_ptr<const TokenTexts> Get(
      const std::function<std::shared_ptr<const TokenTexts>()>& make) const {
    absl::MutexLock lock(&mutex_);
    if (made_ == nullptr) {
      made_ = make();
    }
    return made_;
  }

 private:
  mutable absl::Mutex mutex_;
  mutable std::shared_ptr<const TokenTexts> made_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace beamwright::grammar

#endif  // BEAMWRIGHT_ENGINE_GRAMMAR_TOKEN_TEXTS_H_
