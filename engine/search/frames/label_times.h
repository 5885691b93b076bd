// LabelTimes: the times of labels on best paths, as chains that share their beginnings. A
// hypothesis holds the end of its chain; going on copies nothing, and unreferenced links are
// used again.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_FRAMES_LABEL_TIMES_H_
#define BEAMWRIGHT_ENGINE_SEARCH_FRAMES_LABEL_TIMES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/search/frames/frame_hypothesis.h"

namespace beamwright::search {

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

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_FRAMES_LABEL_TIMES_H_
