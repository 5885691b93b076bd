// RowFamilies: the rows of a step by the old row that each continues. A beam search continues its
// best rows several times over: of five rows, three have different parents, say. What a kernel
// computes from the old state alone it then computes once for each parent; the bits are the same,
// since a row's result depends on no other row.
#ifndef BEAMWRIGHT_OPS_GRAPH_ROW_FAMILIES_H_
#define BEAMWRIGHT_OPS_GRAPH_ROW_FAMILIES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ops/graph/operator.h"

namespace beamwright::ops {

// Families are numbered in the order in which rows bring them up.
class RowFamilies {
 public:
  // parents: by row, the old row that it continues, at least 0. Keeps its memory from call to call.
  void Assign(absl::Span<const int32_t> parents);

  int num_rows() const { return static_cast<int>(rows_.size()); }
  int num_families() const { return static_cast<int>(parents_.size()); }
  // By family.
  absl::Span<const int32_t> parents() const { return parents_; }
  // All rows, family by family, ascending within one.
  absl::Span<const int32_t> rows() const { return rows_; }
  // Where the rows of `family` begin in rows(); num_rows() for the number of families.
  int first(int64_t family) const { return firsts_[static_cast<size_t>(family)]; }
  // Whether rows() is 0, 1, 2, ...
  bool in_order() const { return in_order_; }

 private:
  std::vector<int32_t> parents_;
  std::vector<int32_t> rows_;
  std::vector<int32_t> firsts_;
  std::vector<int32_t> family_of_row_;
  std::vector<int32_t> family_of_parent_;  // -1: none yet
  bool in_order_ = true;
};

// A state of which each row has its own memory (a page), so that a step can write a row's next
// state over the old one.
struct StatePages {
  Shape row_shape;                      // [1, ...]
  absl::Span<const float* const> from;  // by family: the old state
  absl::Span<float* const> to;          // by row; of a family's last row it may be `from`
};

// Where a kernel finds rows that were not copied for it.
struct RowSources {
  // Input state_input() has a row for each of these instead of one for each row. Null: for each
  // row.
  const RowFamilies* families = nullptr;
  // Input table_input() is a table, and the rows are those that this list [rows] of integers names,
  // as Gather reads it. Null: it has a row for each row.
  const Tensor* table_rows = nullptr;
  // With `families`: input state_input() and output paged_output() have no tensors, but are here.
  const StatePages* pages = nullptr;
  // With `pages`: where texts are read several positions at once. The rows of `families` and pages
  // are texts; text i has the rows behind those of text i - 1 up to last_rows[i], of which each
  // continues the one before. Empty: a row each.
  absl::Span<const int32_t> last_rows = {};
};

// What a Kernel also is if it can read rows where they lie.
class RowSourceKernel {
 public:
  virtual ~RowSourceKernel() = default;
  // Kernel::Run with such inputs; at least one source must be there.
  virtual absl::Status RunRows(const ExecutionContext& context,
                               absl::Span<const Tensor* const> inputs, const RowSources& sources,
                               absl::Span<Tensor> outputs) const = 0;
  // -1: it takes none.
  virtual int state_input() const = 0;
  virtual int table_input() const = 0;
  // The output that is the next value of state_input() and can be written to pages; -1: none.
  virtual int paged_output() const { return -1; }
};

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_GRAPH_ROW_FAMILIES_H_
