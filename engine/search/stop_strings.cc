#include "engine/search/stop_strings.h"

#include <algorithm>

namespace beamwright::search {
namespace {

// What the token writes; begins_text is cleared by the first that would write behind others.
std::string Write(const StopStrings::Writer& writer, int32_t token, bool& begins_text) {
  std::string text = writer(token, begins_text);
  begins_text = begins_text && text.empty() && writer(token, false).empty();
  return text;
}

}  // namespace

StopStrings::StopStrings(const std::vector<std::string>& strings, Writer writer)
    : writer_(std::move(writer)), nodes_(1) {
  std::vector<std::vector<std::pair<unsigned char, int32_t>>> children(1);
  for (const std::string& string : strings) {
    int32_t node = 0;
    for (const char c : string) {
      const auto [child, is_new] = children_.emplace(
          std::make_pair(node, static_cast<unsigned char>(c)), static_cast<int32_t>(nodes_.size()));
      if (is_new) {
        nodes_.push_back({0, nodes_[static_cast<size_t>(node)].depth + 1, 0});
        children[static_cast<size_t>(node)].push_back({c, child->second});
        children.emplace_back();
      }
      node = child->second;
    }
    nodes_[static_cast<size_t>(node)].longest = nodes_[static_cast<size_t>(node)].depth;
  }
  // Breadth first: the failures of shorter beginnings are known.
  std::vector<int32_t> order = {0};
  for (size_t i = 0; i < order.size(); ++i) {
    const int32_t node = order[i];
    for (const auto& [byte, child] : children[static_cast<size_t>(node)]) {
      order.push_back(child);
      Node& own = nodes_[static_cast<size_t>(child)];
      own.failure = node == 0 ? 0 : Step(nodes_[static_cast<size_t>(node)].failure, byte);
      own.longest = std::max(own.longest, nodes_[static_cast<size_t>(own.failure)].longest);
    }
  }
}

int32_t StopStrings::Child(int32_t node, unsigned char byte) const {
  const auto child = children_.find(std::make_pair(node, byte));
  return child == children_.end() ? -1 : child->second;
}

int32_t StopStrings::Step(int32_t node, unsigned char byte) const {
  for (;; node = nodes_[static_cast<size_t>(node)].failure) {
    if (const int32_t child = Child(node, byte); child >= 0 || node == 0) {
      return std::max(child, 0);
    }
  }
}

int64_t StopStrings::Next(int64_t state, int32_t token) const {
  bool begins_text = (state & kBeginsText) != 0;
  auto node = static_cast<int32_t>(state >> kNodeShift);
  bool stops = false;
  for (const char c : Write(writer_, token, begins_text)) {
    node = Step(node, static_cast<unsigned char>(c));
    stops = stops || nodes_[static_cast<size_t>(node)].longest > 0;
  }
  return (int64_t{node} << kNodeShift) | (begins_text ? kBeginsText : 0) | (stops ? kStops : 0);
}

StopStrings::Ending StopStrings::Read(absl::Span<const int32_t> tokens, bool begins_text) const {
  Ending ending;
  int32_t node = 0;
  // While no string is complete, `rest` is all that was written.
  for (const int32_t token : tokens) {
    for (const char c : Write(writer_, token, begins_text)) {
      ending.rest.push_back(c);
      if (ending.stops) {
        continue;
      }
      node = Step(node, static_cast<unsigned char>(c));
      if (const int32_t size = nodes_[static_cast<size_t>(node)].longest; size > 0) {
        ending.stops = true;
        ending.rest.erase(0, ending.rest.size() - static_cast<size_t>(size));
      }
    }
  }
  if (!ending.stops) {
    const auto begun = static_cast<size_t>(nodes_[static_cast<size_t>(node)].depth);
    ending.rest.erase(0, ending.rest.size() - begun);
  }
  return ending;
}

}  // namespace beamwright::search
