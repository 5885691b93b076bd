// NBestList: the best hypotheses of a search so far, and the slots of the history that the finished
// ones rest in.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_N_BEST_LIST_H_
#define BEAMWRIGHT_ENGINE_SEARCH_N_BEST_LIST_H_

#include <vector>

#include "engine/search/fusion.h"
#include "engine/search/hypothesis.h"
#include "engine/search/slot_history.h"

namespace beamwright::search {

// One choice of a step: a row continued by a token.
struct Pair {
  double rank = 0;     // what pairs are ranked by
  double sum = 0;      // of log-probabilities, this token's included
  double reward = 0;   // of rewards, this token's included
  double fused = 0;    // what scorers add, this token included
  int32_t parent = 0;  // row, and its slot, in the step before
  int32_t token = 0;
  float rank_score = 0;  // the token's share in rank
  float log_prob = 0;
  int32_t group = 0;      // or sample
  int32_t bank = 0;       // constraint tokens met
  TokenParts parts = {};  // of the token
};

struct ListEntry {
  double key = 0;  // entries are ordered by it, descending
  double score = 0;
  double sum = 0;
  double reward = 0;
  double coverage = 0;
  int length = 0;  // steps, the prefix's included
  int slot = 0;
  int traced = -1;  // its number in the search's trace
  FinishReason reason = FinishReason::kEos;
};

// Ordered by key descending, then fewer tokens, then lexicographically by tokens; distinct.
class NBestList {
 public:
  // Finished hypotheses rest in slots first_slot to first_slot + capacity - 1.
  NBestList(int capacity, int first_slot) : capacity_(capacity), first_slot_(first_slot) {
    entries_.reserve(static_cast<size_t>(capacity));
  }

  // Puts the pair, which the last step of the history is about, on the list if it belongs there.
  // live_slot: where the pair stands already; -1: it gets one of the list's slots. entry.length and
  // entry.slot are set here. False: it does not belong there.
  bool Enter(const Pair& pair, ListEntry entry, int live_slot, SlotHistory& history);

  // Puts the entries of `other`, which stand behind all of this list, at its end while it is not
  // full.
  void Append(const NBestList& other);

  int capacity() const { return capacity_; }
  bool full() const { return entries_.size() == static_cast<size_t>(capacity_); }
  const std::vector<ListEntry>& entries() const { return entries_; }

 private:
  // Negative: the pair stands before the entry; 0: it is the same hypothesis.
  static int Compare(const Pair& pair, const ListEntry& own, const ListEntry& other,
                     const SlotHistory& history);

  int capacity_;
  int first_slot_;
  std::vector<ListEntry> entries_;
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_N_BEST_LIST_H_
