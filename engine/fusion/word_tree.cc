#include "engine/fusion/word_tree.h"

namespace beamwright::fusion {
namespace {

uint64_t Key(int32_t node, char letter) {
  return (static_cast<uint64_t>(node) << 8) | static_cast<unsigned char>(letter);
}

}  // namespace

WordTree::WordTree(absl::Span<const std::string> words) : word_of_(1, -1) {
  for (size_t word = 0; word < words.size(); ++word) {
    int32_t node = kRoot;
    for (const char letter : words[word]) {
      const auto [child, is_new] = children_.try_emplace(Key(node, letter), num_nodes());
      node = child->second;
      if (is_new) {
        word_of_.push_back(-1);
      }
    }
    word_of_[static_cast<size_t>(node)] = static_cast<int32_t>(word);
  }
}

int32_t WordTree::Child(int32_t node, char letter) const {
  if (node == kUnlisted) {
    return kUnlisted;
  }
  const auto found = children_.find(Key(node, letter));
  return found == children_.end() ? kUnlisted : found->second;
}

}  // namespace beamwright::fusion
