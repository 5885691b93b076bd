// Hotwords: phrases whose every occurrence adds a bonus to a hypothesis. An Aho-Corasick automaton
// over tokens (Aho and Corasick 1975) finds them; its node is a row's state.
//
// Two things are kept apart. The bonus of a phrase is earned when its last token is chosen, and
// stays: the earned total depends on the text alone. Before that, a row that has matched part of a
// phrase ranks higher by the same part of its bonus, so that it survives until the rest can come;
// that promise is not part of any score and falls away when the phrase breaks off (k2 and sherpa
// call it the context graph's failure cost).
#ifndef BEAMWRIGHT_ENGINE_SEARCH_HOTWORDS_H_
#define BEAMWRIGHT_ENGINE_SEARCH_HOTWORDS_H_

#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "engine/search/options.h"
#include "engine/search/processor.h"

namespace beamwright::search {

class Hotwords final : public Processor {
 public:
  // Tokens of phrases are not empty; bonuses >= 0.
  explicit Hotwords(const std::vector<Hotword>& phrases);

  absl::string_view option() const override { return "hotwords"; }
  int64_t Start() const override { return 0; }
  int64_t Next(int64_t node, int32_t token) const override;
  void Apply(const RowView& row, RuleBuffer& rules) const override;
  double Reward(int64_t node, int32_t token, float log_prob) const override;
  double Promise(int64_t node) const override { return at(node).promise; }
  void AddContinuations(int64_t node, std::vector<int32_t>& tokens) const override;
  bool gives_rewards() const override { return true; }
  double max_gain() const override { return max_gain_; }
  // What a row earns that has come to `node` just now.
  double Earned(int64_t node) const { return at(node).earned; }

 private:
  struct Edge {
    int32_t token;
    int32_t node;
  };
  struct Node {
    int32_t first_edge = 0;  // in edges_, ascending by token
    int32_t num_edges = 0;
    int32_t fallback = 0;  // the longest proper suffix that is a node
    double earned = 0;     // bonuses of all phrases that end here
    double promise = 0;    // of the phrase that is most worth finishing from here
  };
  using EdgesOfNodes = std::vector<std::vector<Edge>>;

  const Node& at(int64_t node) const { return nodes_[static_cast<size_t>(node)]; }
  absl::Span<const Edge> edges(const Node& node) const {
    return {edges_.data() + node.first_edge, static_cast<size_t>(node.num_edges)};
  }
  // -1: none. edges: ascending.
  static int32_t FindEdge(absl::Span<const Edge> edges, int32_t token);
  // The same of the root, to which most tokens lead back.
  int32_t FindStart(int32_t token) const {
    const auto index = static_cast<size_t>(token);
    return index < starts_.size() ? starts_[index] : -1;
  }
  void AddPhrase(const Hotword& phrase, EdgesOfNodes& edges);
  void AddFallbacks();

  std::vector<Node> nodes_;
  std::vector<Edge> edges_;      // of all nodes, one after another
  std::vector<int32_t> starts_;  // by token: the root's child, or -1
  double max_gain_ = 0;
};

// SharedHotwords: the automaton of a request's hotwords, compiled once for all requests with the
// same phrases: those of a call's sources, and of calls that repeat a list. An automaton lives as
// long as a request that reads it.

// Thread-safe. Phrases as Hotwords takes them.
std::unique_ptr<const Processor> SharedHotwords(const std::vector<Hotword>& phrases);

// Automata that are alive.
size_t NumSharedHotwords();

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_HOTWORDS_H_
