// WordTree: words as a tree of their bytes, walked while a search writes text; WordTokens: what
// each of its tokens writes.
#ifndef BEAMWRIGHT_ENGINE_FUSION_WORD_TREE_H_
#define BEAMWRIGHT_ENGINE_FUSION_WORD_TREE_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"

namespace beamwright::fusion {

// What tokens write, and which of them end an answer.
struct WordTokens {
  std::vector<std::string> surfaces;  // by token; a space begins or ends a word; empty: no text
  std::vector<int32_t> ends;

  bool IsEnd(int32_t token) const {
    return std::find(ends.begin(), ends.end(), token) != ends.end();
  }
};

// Immutable and thread-safe. About 30 bytes a letter.
class WordTree {
 public:
  static constexpr int32_t kRoot = 0;       // between words
  static constexpr int32_t kUnlisted = -1;  // no word begins so

  // Word i is number i; of equal words the last counts.
  explicit WordTree(absl::Span<const std::string> words);

  // One byte further; kUnlisted stays so.
  int32_t Child(int32_t node, char letter) const;
  // The word that ends there; -1: none does.
  int32_t WordAt(int32_t node) const {
    return node == kUnlisted ? -1 : word_of_[static_cast<size_t>(node)];
  }
  int32_t num_nodes() const { return static_cast<int32_t>(word_of_.size()); }
  int64_t num_bytes() const { return static_cast<int64_t>(word_of_.size()) * 30; }

 private:
  absl::flat_hash_map<uint64_t, int32_t> children_;  // by node and letter
  std::vector<int32_t> word_of_;                     // by node
};

}  // namespace beamwright::fusion

#endif  // BEAMWRIGHT_ENGINE_FUSION_WORD_TREE_H_
