// Phrases that earn a bonus in a search, as an automaton of Aho and Corasick: a tree of all
// phrases, in which each node also has a fallback, the node of the longest proper suffix of its
// tokens.
//
// 1. The constructor adds phrases as paths (AddPhrase), then puts the edges of each node in one
//    sorted list.
// 2. AddFallbacks finds the fallbacks, breadth first, and adds what a fallback earns to its node,
//    as the phrase that ends there ends here, too.
// 3. Apply gives each token that goes on with a phrase the bonus earned at its node, and the
//    promise: a part of the bonus for a phrase begun, in proportion to the tokens read. The promise
//    only helps the row stay in the beam; the score of a hypothesis counts what is earned (Reward).
//
// Example: with phrases "new york" and "york city", behind "new york" the fallback is "york", so
// that "city" is rewarded.
#include "engine/search/hotwords.h"

#include <algorithm>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "absl/synchronization/mutex.h"

namespace beamwright::search {

Hotwords::Hotwords(const std::vector<Hotword>& phrases) : nodes_(1) {
  EdgesOfNodes edges_of_nodes(1);
  for (const Hotword& phrase : phrases) {
    AddPhrase(phrase, edges_of_nodes);
  }
  for (size_t node = 0; node < nodes_.size(); ++node) {
    nodes_[node].first_edge = static_cast<int32_t>(edges_.size());
    nodes_[node].num_edges = static_cast<int32_t>(edges_of_nodes[node].size());
    edges_.insert(edges_.end(), edges_of_nodes[node].begin(), edges_of_nodes[node].end());
  }
  for (const Edge& edge : edges(nodes_[0])) {
    starts_.resize(static_cast<size_t>(edge.token) + 1, -1);  // edges ascend
    starts_.back() = edge.node;
  }
  AddFallbacks();
}

int32_t Hotwords::FindEdge(absl::Span<const Edge> edges, int32_t token) {
  const auto it =
      std::lower_bound(edges.begin(), edges.end(), token,
                       [](const Edge& edge, int32_t wanted) { return edge.token < wanted; });
  return it != edges.end() && it->token == token ? it->node : -1;
}

void Hotwords::AddPhrase(const Hotword& phrase, EdgesOfNodes& edges) {
  const double length = static_cast<double>(phrase.tokens.size());
  size_t node = 0;
  for (size_t depth = 0; depth < phrase.tokens.size(); ++depth) {
    Node& parent = nodes_[node];
    parent.promise = std::max(parent.promise, phrase.bonus * static_cast<double>(depth) / length);
    int32_t child = FindEdge(edges[node], phrase.tokens[depth]);
    if (child < 0) {
      child = static_cast<int32_t>(nodes_.size());
      const Edge edge = {phrase.tokens[depth], child};
      edges[node].insert(
          std::upper_bound(edges[node].begin(), edges[node].end(), edge,
                           [](const Edge& a, const Edge& b) { return a.token < b.token; }),
          edge);
      nodes_.emplace_back();  // `parent` is invalid from here on
      edges.emplace_back();
    }
    node = static_cast<size_t>(child);
  }
  nodes_[node].earned += phrase.bonus;
}

void Hotwords::AddFallbacks() {
  // 1. Breadth first: a fallback is shorter, so it is complete already.
  std::vector<int32_t> queue = {0};
  for (size_t i = 0; i < queue.size(); ++i) {
    const auto parent = static_cast<size_t>(queue[i]);
    for (const Edge& edge : edges(nodes_[parent])) {
      Node& child = nodes_[static_cast<size_t>(edge.node)];
      child.fallback =
          parent == 0 ? 0 : static_cast<int32_t>(Next(nodes_[parent].fallback, edge.token));
      child.earned += at(child.fallback).earned;
      child.promise = std::max(child.promise, at(child.fallback).promise);
      max_gain_ = std::max(max_gain_, child.earned);
      queue.push_back(edge.node);
    }
  }
  // 2. A fallback whose tokens the node has all itself says nothing more of what may follow: it is
  // skipped from here on. A row that repeats a token, or a period of tokens, would else walk back
  // through as many nodes as it has tokens, for each candidate of each step.
  const auto covers = [this](const Node& node, const Node& other) {
    const absl::Span<const Edge> tokens = edges(other);
    return other.num_edges <= node.num_edges &&
           std::all_of(tokens.begin(), tokens.end(),
                       [&](const Edge& edge) { return FindEdge(edges(node), edge.token) >= 0; });
  };
  for (const int32_t index : queue) {
    Node& node = nodes_[static_cast<size_t>(index)];
    while (node.fallback != 0 && covers(node, at(node.fallback))) {
      node.fallback = at(node.fallback).fallback;
    }
  }
}

int64_t Hotwords::Next(int64_t node, int32_t token) const {
  for (; node != 0; node = at(node).fallback) {
    const int32_t child = FindEdge(edges(at(node)), token);
    if (child >= 0) {
      return child;
    }
  }
  return std::max(FindStart(token), 0);
}

double Hotwords::Reward(int64_t node, int32_t token, float /*log_prob*/) const {
  return at(Next(node, token)).earned;
}

void Hotwords::AddContinuations(int64_t node, std::vector<int32_t>& tokens) const {
  for (; node != 0; node = at(node).fallback) {
    for (const Edge& edge : edges(at(node))) {
      tokens.push_back(edge.token);
    }
  }
}

void Hotwords::Apply(const RowView& row, RuleBuffer& rules) const {
  for (int64_t node = row.state;; node = at(node).fallback) {
    for (const Edge& edge : edges(at(node))) {
      // A longer suffix that goes on with this token has spoken for it already.
      bool spoken = false;
      for (int64_t longer = row.state; longer != node && !spoken; longer = at(longer).fallback) {
        spoken = FindEdge(edges(at(longer)), edge.token) >= 0;
      }
      if (!spoken) {
        const Node& next = at(edge.node);
        rules.AddBonus(edge.token, static_cast<float>(next.earned + next.promise));
      }
    }
    if (node == 0) {
      return;
    }
  }
}

namespace {

using Phrases = std::vector<Hotword>;

// An automaton with what it was made of.
struct Compiled {
  explicit Compiled(const Phrases& from) : phrases(from), automaton(from) {}

  Phrases phrases;
  Hotwords automaton;
};

size_t HashOf(const Phrases& phrases) {
  size_t hash = phrases.size();
  for (const Hotword& phrase : phrases) {
    hash = absl::HashOf(hash, phrase.tokens, phrase.bonus);
  }
  return hash;
}

bool AreEqual(const Phrases& a, const Phrases& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Hotword& x, const Hotword& y) {
    return x.bonus == y.bonus && x.tokens == y.tokens;
  });
}

class Table {
 public:
  std::shared_ptr<const Compiled> Get(const Phrases& phrases) {
    const size_t hash = HashOf(phrases);
    if (std::shared_ptr<const Compiled> known = Find(hash);
        known != nullptr && AreEqual(known->phrases, phrases)) {
      return known;
    }
    // Outside of the lock: others need not wait. Of two that compile the same the last is kept.
    std::shared_ptr<const Compiled> made(new Compiled(phrases), [this, hash](const Compiled* old) {
      delete old;
      Forget(hash);
    });
    absl::MutexLock lock(&mutex_);
    compiled_[hash] = made;
    return made;
  }

  size_t size() const {
    absl::MutexLock lock(&mutex_);
    return compiled_.size();
  }

 private:
  std::shared_ptr<const Compiled> Find(size_t hash) const {
    absl::MutexLock lock(&mutex_);
    const auto found = compiled_.find(hash);
    return found == compiled_.end() ? nullptr : found->second.lock();
  }

  void Forget(size_t hash) {
    absl::MutexLock lock(&mutex_);
    if (const auto found = compiled_.find(hash);
        found != compiled_.end() && found->second.expired()) {
      compiled_.erase(found);
    }
  }

  mutable absl::Mutex mutex_;
  absl::flat_hash_map<size_t, std::weak_ptr<const Compiled>> compiled_ ABSL_GUARDED_BY(mutex_);
};

Table& SharedTable() {
  static auto* const table = new Table();  // never destroyed: requests may outlive main's statics
  return *table;
}

// Hands everything on to the automaton.
class Shared final : public Processor {
 public:
  explicit Shared(std::shared_ptr<const Compiled> compiled)
      : compiled_(std::move(compiled)), automaton_(compiled_->automaton) {}

  absl::string_view option() const override { return automaton_.option(); }
  int64_t Start() const override { return automaton_.Start(); }
  int64_t Next(int64_t node, int32_t token) const override { return automaton_.Next(node, token); }
  void Apply(const RowView& row, RuleBuffer& rules) const override { automaton_.Apply(row, rules); }
  double Reward(int64_t node, int32_t token, float log_prob) const override {
    return automaton_.Reward(node, token, log_prob);
  }
  double Promise(int64_t node) const override { return automaton_.Promise(node); }
  void AddContinuations(int64_t node, std::vector<int32_t>& tokens) const override {
    automaton_.AddContinuations(node, tokens);
  }
  bool gives_rewards() const override { return automaton_.gives_rewards(); }
  double max_gain() const override { return automaton_.max_gain(); }

 private:
  const std::shared_ptr<const Compiled> compiled_;
  const Hotwords& automaton_;
};

}  // namespace

std::unique_ptr<const Processor> SharedHotwords(const std::vector<Hotword>& phrases) {
  return std::make_unique<Shared>(SharedTable().Get(phrases));
}

size_t NumSharedHotwords() { return SharedTable().size(); }

}  // namespace beamwright::search
