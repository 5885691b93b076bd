// TokenTrie: a set of token sequences, for hypotheses that must be one of them. Two flat arrays,
// made once; what may follow a node is a view of one of them, so that a million entries cost a step
// no more than ten do.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_TOKEN_TRIE_H_
#define BEAMWRIGHT_ENGINE_SEARCH_TOKEN_TRIE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace beamwright::search {

using TokenSequence = std::vector<int32_t>;

// Immutable and thread-safe once made. 8 bytes for each node; an entry's end tokens are nodes too.
class TokenTrie {
 public:
  static constexpr int64_t kRoot = 0;
  static constexpr int64_t kNowhere = -1;

  // `entries`: not empty, in any order; `end_tokens` close each of them and occur in none.
  TokenTrie(std::vector<TokenSequence> entries, std::vector<int32_t> end_tokens);

  // What may follow, ascending: the entries' next tokens, and the end tokens where one is complete.
  // Empty behind an end token and at kNowhere. Lives as long as the trie.
  absl::Span<const int32_t> Children(int64_t node) const;
  // The node behind `token`; kNowhere if no entry goes on so.
  int64_t Child(int64_t node, int32_t token) const;
  // True if the tokens up to this node are an entry, with or without its end token.
  bool IsEntry(int64_t node) const;

  int64_t num_nodes() const { return static_cast<int64_t>(tokens_.size()) + 1; }
  int64_t num_bytes() const { return num_nodes() * 8; }

 private:
  bool IsEnd(int32_t token) const;

  // Nodes are numbered level by level, so that a node's children stand together: those of node n
  // are first_child_[n] to first_child_[n + 1] - 1, and node i > 0 is reached by tokens_[i - 1].
  std::vector<int32_t> tokens_;
  std::vector<uint32_t> first_child_;
  std::vector<int32_t> end_tokens_;  // ascending
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_TOKEN_TRIE_H_
