// Sets of sequences as automata: TokenTrie, for hypotheses that must be one of them, and
// StopStrings, which end an answer.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_TRIES_H_
#define BEAMWRIGHT_ENGINE_SEARCH_TRIES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"

namespace beamwright::search {

// TokenTrie: a set of token sequences, for hypotheses that must be one of them. Two flat arrays,
// made once; what may follow a node is a view of one of them, so that a million entries cost a step
// no more than ten do.

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

// StopStrings: strings that end an answer where its text comes to one of them. Text is bytes here,
// read token by token: an automaton of Aho and Corasick (1975) over the strings, whose state is all
// that must be known of the tokens before. So a string is found wherever the borders of tokens are.
// docs/decoding.md, 'Stop strings'.

// Thread-safe if the writer is.
class StopStrings {
 public:
  // The bytes that a token writes behind others, or (is_first) where it begins a text.
  using Writer = std::function<std::string(int32_t token, bool is_first)>;

  // strings: not empty, and none of them is.
  StopStrings(const std::vector<std::string>& strings, Writer writer);

  // The state before any token; begins_text: nothing is written before it.
  int64_t Start(bool begins_text) const { return begins_text ? kBeginsText : 0; }
  // The state after one more token.
  int64_t Next(int64_t state, int32_t token) const;
  // Whether the last token completed a string.
  static bool Stops(int64_t state) { return (state & kStops) != 0; }

  // Of memory.
  int64_t num_bytes() const { return static_cast<int64_t>(nodes_.size()) * kNodeBytes; }

  // What tokens write from the place on where the answer's text ends.
  struct Ending {
    bool stops = false;  // a string is complete
    // All from its beginning on; where no string is complete, what one may begin with.
    std::string rest;
  };
  // Of the tokens behind the target prefix. Of strings that are complete with the same byte, the
  // longest counts; of others, the one that is complete first.
  Ending Read(absl::Span<const int32_t> tokens, bool begins_text) const;

 private:
  static constexpr int64_t kStops = 1;
  static constexpr int64_t kBeginsText = 2;
  static constexpr int kNodeShift = 2;
  static constexpr int64_t kNodeBytes = 64;  // with the edge that leads to it

  struct Node {
    int32_t failure = 0;  // of the longest proper suffix that begins a string
    int32_t depth = 0;    // bytes
    int32_t longest = 0;  // string that ends here, in bytes; 0: none does
  };

  int32_t Child(int32_t node, unsigned char byte) const;
  int32_t Step(int32_t node, unsigned char byte) const;

  Writer writer_;
  std::vector<Node> nodes_;
  absl::flat_hash_map<std::pair<int32_t, unsigned char>, int32_t> children_;
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_TRIES_H_
