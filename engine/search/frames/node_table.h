// NodeTable: from (node, label) to the child node, a hash table with open addressing. Children come
// and go with every frame, so that removing closes the gap and steady frames allocate nothing.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_FRAMES_NODE_TABLE_H_
#define BEAMWRIGHT_ENGINE_SEARCH_FRAMES_NODE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace beamwright::search {

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

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_FRAMES_NODE_TABLE_H_
