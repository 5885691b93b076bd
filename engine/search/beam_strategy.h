// Plain beam search, and greedy search: the best pairs of all rows.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_BEAM_STRATEGY_H_
#define BEAMWRIGHT_ENGINE_SEARCH_BEAM_STRATEGY_H_

#include <vector>

#include "engine/search/strategy.h"

namespace beamwright::search {

class BeamStrategy final : public Strategy {
 public:
  explicit BeamStrategy(int beam_size) { cursors_.reserve(static_cast<size_t>(beam_size)); }

  absl::Status Choose(Step& step, Choice& choice) override;

 private:
  // The best candidate of a row that has not been ranked yet.
  struct Cursor {
    double rank;
    int32_t row;
    int32_t candidate;
  };

  // A functor, so that the heap's functions inline it.
  struct IsWorse {
    bool operator()(const Cursor& a, const Cursor& b) const {
      return a.rank != b.rank ? a.rank < b.rank : a.row > b.row;
    }
  };
  // Puts the first open candidate of the row from this one on.
  void Push(const Step& step, int32_t row, size_t candidate);
  // False: none is left.
  bool Pop(const Step& step, Pair& pair);

  std::vector<Cursor> cursors_;  // a heap, best first
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_BEAM_STRATEGY_H_
