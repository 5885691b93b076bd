// The label sequences of a search's hypotheses, as a tree, the times of their labels, and the
// answers made of them.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_FRAMES_LABEL_HISTORIES_H_
#define BEAMWRIGHT_ENGINE_SEARCH_FRAMES_LABEL_HISTORIES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/search/frames/frame_options.h"
#include "engine/search/frames/frame_search.h"
#include "engine/search/options.h"
#include "engine/search/processor.h"

namespace beamwright::search {

// NodeTable: from (node, label) to the child node, a hash table with open addressing. Children come
// and go with every frame, so that removing closes the gap and steady frames allocate nothing.

// One thread at a time.
class NodeTable {
 public:
  NodeTable() : entries_(64) {}

  // -1: none.
  int32_t Find(int32_t node, int32_t label) const {
    const uint64_t key = Key(node, label);
    for (size_t i = Home(key);; i = (i + 1) & Mask()) {
      if (entries_[i].child < 0 || entries_[i].key == key) {
        return entries_[i].child;
      }
    }
  }
  // Which is not there.
  void Insert(int32_t node, int32_t label, int32_t child);
  // Which is there.
  void Remove(int32_t node, int32_t label);

 private:
  struct Entry {
    uint64_t key = 0;
    int32_t child = -1;  // -1: free
  };
  static uint64_t Key(int32_t node, int32_t label) {
    return static_cast<uint64_t>(static_cast<uint32_t>(node)) << 32 | static_cast<uint32_t>(label);
  }
  size_t Mask() const { return entries_.size() - 1; }
  // The golden ratio spreads keys; the high bits are the good ones.
  size_t Home(uint64_t key) const {
    return static_cast<size_t>((key * 0x9E3779B97F4A7C15u) >> 32) & Mask();
  }
  void Put(const Entry& entry);

  std::vector<Entry> entries_;  // a power of two, at most half of them used
  size_t num_used_ = 0;
};

// LabelHistories: the label sequences of a search's hypotheses, as a tree. Equal sequences are the
// same node, so that hypotheses merge by comparing a number, and going on copies no labels. A node
// knows what depends on its labels alone: the states of processors and scorers, and what they add
// to ranks and scores.
//
// Nodes are reference-counted (Keep, Drop), and a node holds its parent. Live
// histories, whose next rows are computed, have a slot as well (FrameSearch), and rules.

// A history, or (label >= 0) what one more label would make of it.
struct LabelKey {
  int32_t node = 0;
  int32_t label = -1;
  friend bool operator==(const LabelKey&, const LabelKey&) = default;
};

// One thread at a time. Allocates only while more is in use than ever before.
class LabelHistories {
 public:
  static constexpr int32_t kRoot = 0;  // no label; always there
  static constexpr int32_t kNone = -1;

  // plan: outlives this.
  explicit LabelHistories(const FramePlan& plan);

  // The node of `label` behind `node`; kNone if it is not held.
  int32_t Find(int32_t node, int32_t label) const { return children_.Find(node, label); }
  // The key with the longest node: that of an existing child, if there is one.
  LabelKey Normal(LabelKey key) const;
  // Finds or makes it; the caller holds it once more. fused: the scores of `node`'s row, where
  // there are scorers that come with rows.
  int32_t Extend(int32_t node, int32_t label, const FusedRow* fused);
  void Keep(int32_t node) { ++at(node).num_holders; }
  void Drop(int32_t node);

  int32_t parent(int32_t node) const { return at(node).parent; }
  int32_t label(int32_t node) const { return at(node).label; }  // -1 of the root
  int depth(int32_t node) const { return at(node).depth; }      // labels
  // Appends the labels of `node` behind the first `skip`.
  void AppendLabels(int32_t node, size_t skip, std::vector<int32_t>& labels) const;
  // The longest beginning that both share.
  int32_t Common(int32_t a, int32_t b) const;
  // Fewer labels first, then by labels (docs/decoding.md, 'Order').
  bool OrderedBefore(LabelKey a, LabelKey b) const;

  // What ranks a history in addition to its alignments: rewards, what rewards promise, scorers.
  double gain(int32_t node) const { return at(node).score + at(node).promise; }
  // The same of what one more label would make; -infinity where a scorer rules it out.
  double GainOf(int32_t node, int32_t label, const FusedRow* fused) const;
  // An upper bound of what one more label adds to a gain, promises included.
  double max_gain() const { return max_gain_; }
  // Whether an answer may end here; false at the beginning of what must be whole.
  bool MayEnd(int32_t node) const;
  // Fills reward, scorers' sums and score of an answer whose merged_log_prob is known. ended: no
  // frame is left, so that scorers' ends count.
  void Score(int32_t node, bool ended, FrameHypothesis& hypothesis) const;

  int32_t slot(int32_t node) const { return at(node).slot; }
  // If it has none; its parent has one, or it is the root.
  void TakeSlot(int32_t node);
  // Frees those of all other nodes. They are taken again after the next ClearSteps at the earliest.
  template <typename IsLive>
  void ReleaseSlots(const IsLive& is_live);
  void ClearSteps();
  absl::Span<const LabelStep> steps() const { return steps_; }
  int num_slots() const { return static_cast<int>(rules_.size()); }
  // Of a node with a slot: what its rows may choose.
  const RuleBuffer& rules(int32_t node) const {
    return rules_[static_cast<size_t>(at(node).slot)].buffer;
  }
  // Of a node with a slot: labels that go on with a hotword that has begun.
  absl::Span<const int32_t> continuations(int32_t node) const {
    return rules_[static_cast<size_t>(at(node).slot)].watched;
  }
  size_t num_nodes() const { return nodes_.size() - free_.size(); }
  // Nodes are numbers below it.
  size_t num_ids() const { return nodes_.size(); }

 private:
  struct Node {
    int32_t parent = kNone;
    int32_t label = -1;
    int32_t depth = 0;
    int32_t num_holders = 0;
    int32_t slot = -1;
    double reward = 0;   // hotwords
    double score = 0;    // reward, weighted scorers' sums and word rewards
    double promise = 0;  // see Processor::Promise
  };
  struct SlotRules {
    RuleBuffer buffer;
    std::vector<int32_t> watched;
  };
  struct Gain {
    double reward = 0;
    double score = 0;
    double promise = 0;
  };

  Node& at(int32_t node) { return nodes_[static_cast<size_t>(node)]; }
  const Node& at(int32_t node) const { return nodes_[static_cast<size_t>(node)]; }
  int64_t* states(int32_t node) { return states_.data() + static_cast<size_t>(node) * num_states_; }
  const int64_t* states(int32_t node) const {
    return states_.data() + static_cast<size_t>(node) * num_states_;
  }
  double* sums(int32_t node) { return sums_.data() + static_cast<size_t>(node) * num_sums_; }
  const double* sums(int32_t node) const {
    return sums_.data() + static_cast<size_t>(node) * num_sums_;
  }
  // What a label adds; parts: null, or where each scorer's log-probability goes.
  Gain GainOfLabel(int32_t node, int32_t label, const FusedRow* fused, double* parts) const;
  int32_t NewNode();
  void MakeRules(int32_t node, SlotRules& rules);

  const FramePlan* plan_;
  size_t num_processors_;
  size_t num_states_;  // of a node: of processors, then label scorers
  size_t num_sums_;    // of a node: of scorers that come with rows, then label scorers
  double max_gain_ = 0;
  std::vector<Node> nodes_;
  std::vector<int64_t> states_;
  std::vector<double> sums_;
  std::vector<int32_t> free_;
  NodeTable children_;

  std::vector<SlotRules> rules_;  // by slot
  std::vector<int32_t> free_slots_;
  std::vector<int32_t> freed_slots_;   // free from the next ClearSteps on
  std::vector<int32_t> slot_holders_;  // nodes
  std::vector<LabelStep> steps_;
  std::vector<int32_t> scratch_;
};

template <typename IsLive>
void LabelHistories::ReleaseSlots(const IsLive& is_live) {
  size_t kept = 0;
  for (const int32_t node : slot_holders_) {
    if (is_live(node)) {
      slot_holders_[kept++] = node;
    } else {
      freed_slots_.push_back(at(node).slot);
      at(node).slot = -1;
      Drop(node);
    }
  }
  slot_holders_.resize(kept);
}

// LabelTimes: the times of labels on best paths, as chains that share their beginnings. A
// hypothesis holds the end of its chain; going on copies nothing, and unreferenced links are
// used again.

// One thread at a time. Allocates only while more entries are in use than ever before.
class LabelTimes {
 public:
  static constexpr int32_t kNone = -1;  // the chain without labels

  // A new chain: `before`, which it keeps, and one label more. The caller holds it once.
  int32_t Add(int32_t before, const LabelTime& time);
  void Keep(int32_t chain) {
    if (chain != kNone) {
      ++at(chain).num_holders;
    }
  }
  void Drop(int32_t chain);

  const LabelTime& last(int32_t chain) const { return entries_[static_cast<size_t>(chain)].time; }
  // All of a chain, first label first, appended.
  void Append(int32_t chain, std::vector<LabelTime>& times) const;
  size_t num_used() const { return entries_.size() - free_.size(); }

 private:
  struct Entry {
    LabelTime time;
    int32_t before = kNone;
    int32_t num_holders = 0;
  };
  Entry& at(int32_t chain) { return entries_[static_cast<size_t>(chain)]; }

  std::vector<Entry> entries_;
  std::vector<int32_t> free_;
};

// What searches over frames do alike with their answers.

// The n best: score descending, then fewer labels, then lexicographically by labels; of equal
// labels (Recombine::kNone) the first.
void SortAnswers(int n_best, std::vector<FrameHypothesis>& answers);

// Appends to `labels`, which the answer is known to begin with, what else all of its hypotheses
// begin with: of a search that is done those of `answers`, else those of the live `nodes`.
void AppendStable(const LabelHistories& histories, absl::Span<const int32_t> nodes,
                  std::vector<int32_t>& labels);
void AppendStable(absl::Span<const FrameHypothesis> answers, std::vector<int32_t>& labels);

// FailedPrecondition: no hypothesis can go on at the frame. Names the options that may be the
// cause.
absl::Status NothingLeft(const FrameOptions& options, int64_t frame);

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_FRAMES_LABEL_HISTORIES_H_
