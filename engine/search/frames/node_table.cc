#include "engine/search/frames/node_table.h"

#include <utility>

#include "ops/base/check.h"

namespace beamwright::search {

void NodeTable::Put(const Entry& entry) {
  size_t i = Home(entry.key);
  while (entries_[i].child >= 0) {
    BW_DCHECK(entries_[i].key != entry.key);
    i = (i + 1) & Mask();
  }
  entries_[i] = entry;
}

void NodeTable::Insert(int32_t node, int32_t label, int32_t child) {
  if (2 * (num_used_ + 1) > entries_.size()) {
    std::vector<Entry> old(2 * entries_.size());
    old.swap(entries_);
    for (const Entry& entry : old) {
      if (entry.child >= 0) {
        Put(entry);
      }
    }
  }
  Put({Key(node, label), child});
  ++num_used_;
}

// Moves up what would no longer be found from its home (Knuth, volume 3, algorithm 6.4 R).
void NodeTable::Remove(int32_t node, int32_t label) {
  const uint64_t key = Key(node, label);
  size_t gap = Home(key);
  while (entries_[gap].child >= 0 && entries_[gap].key != key) {
    gap = (gap + 1) & Mask();
  }
  BW_DCHECK(entries_[gap].child >= 0);
  for (size_t i = (gap + 1) & Mask(); entries_[i].child >= 0; i = (i + 1) & Mask()) {
    const size_t from_home = (i - Home(entries_[i].key)) & Mask();
    const size_t from_gap = (i - gap) & Mask();
    if (from_home >= from_gap) {
      entries_[gap] = entries_[i];
      gap = i;
    }
  }
  entries_[gap].child = -1;
  --num_used_;
}

}  // namespace beamwright::search
