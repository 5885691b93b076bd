// What the rest of the library knows of an operator: how it infers types and shapes, how a kernel
// is made for one node, and how its output rows follow from its input rows. One Operator per line
// of the registry (ops/kernels/registry.cc); an importer knows operators only by name.
#ifndef BEAMWRIGHT_OPS_GRAPH_OPERATOR_H_
#define BEAMWRIGHT_OPS_GRAPH_OPERATOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ops/base/interruption.h"
#include "ops/graph/graph.h"

namespace beamwright {

class StepProfile;

}  // namespace beamwright

namespace beamwright::ops {

// An input of a node as inference sees it. Absent optional inputs have dtype kUndefined.
struct InputInfo {
  DType dtype = DType::kUndefined;
  PartialShape shape;
  const Tensor* value =
      nullptr;  // known at load (a constant, or computed from constants); not owned
};

// Sets type and shape of each output; `outputs` has as many as the file declares (importers create
// one where a file declares none). What can't be known stays dynamic. Wrong number, type, rank or
// attribute: InvalidArgument saying which input and what is allowed (the caller adds the node's
// name).
using InferFunction = absl::Status (*)(const Node& node, absl::Span<const InputInfo> inputs,
                                       std::vector<ValueInfo>& outputs);

// How a value depends on the rows of a step (docs/architecture.md, 'Rows').
struct RowInfo {
  enum class Kind {
    kFixed,  // the same for every row: constants and per-request values
    kRows,   // `axis` has extent factor * rows; its r-th stretch of `factor` belongs to row r alone
    kExtent,  // integers that follow from the number of rows, not from any row's content
    kMixed,   // anything else, or not known: forces one row at a time
  };
  Kind kind = Kind::kMixed;
  int axis = 0;
  int64_t factor = 1;
  friend bool operator==(const RowInfo&, const RowInfo&) = default;
};

// RowInfo of each output (they share one), given the inputs' and what inference found.
using RowFunction = RowInfo (*)(const Node& node, absl::Span<const RowInfo> rows,
                                absl::Span<const InputInfo> inputs);

// What a kernel may use while it runs, and what ends the run early. The pointers may be null, and
// what they point to must outlive the run.
struct ExecutionContext {
  int num_threads = 1;  // at most this many threads, the calling one among them
  absl::Time deadline = absl::InfiniteFuture();  // by SteadyNow; checked in each iteration of loops
  const Interruption* interruption = nullptr;    // checked there and before each instruction
  StepProfile* profile = nullptr;                // takes the phases of the run

  // Cancelled once the run is interrupted.
  absl::Status CheckInterruption() const {
    return ABSL_PREDICT_TRUE(interruption == nullptr || !interruption->raised())
               ? absl::OkStatus()
               : absl::CancelledError("the run was interrupted");
  }
};

// A compiled node. Run computes outputs from inputs (absent optional inputs are tensors without a
// value); it calls outputs[i].Resize(...) and writes the elements, or makes outputs[i] share an
// input's buffer (Reshape). Input shapes may differ from call to call. Run is const and may be
// called by several threads at once. A kernel's result for one row never depends on how many rows
// there are (docs/numerics.md).
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual absl::Status Run(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
                           absl::Span<Tensor> outputs) const = 0;
  // False: input `index` was known when the kernel was made and has been packed into it; Run may be
  // given a tensor without a value in its place, so that a weight need not be kept twice.
  virtual bool NeedsInput(size_t /*index*/) const { return true; }
};

class OperatorSet;
struct GraphInfo;

struct KernelRequest {
  const Node& node;
  absl::Span<const InputInfo> inputs;  // constants known at load may be packed
  const OperatorSet& operators;        // for operators with bodies
  // What inference found of the graphs inside the node (GraphInfo::bodies).
  absl::Span<const std::shared_ptr<const GraphInfo>> bodies = {};
};

using MakeFunction = absl::StatusOr<std::unique_ptr<Kernel>> (*)(const KernelRequest& request);

struct Operator {
  absl::string_view name;
  InferFunction infer = nullptr;
  MakeFunction make = nullptr;
  RowFunction rows = nullptr;  // nullptr: kMixed unless all inputs are kFixed
  // Every attribute that it reads; others are refused at load.
  std::vector<absl::string_view> attributes;
  // A first axis of extent 1 in one input stands for every row of the others (NumPy's broadcasting
  // of leading axes), so that a request's value need not be repeated for its rows.
  bool broadcasts_rows = false;
};

class OperatorSet {
 public:
  explicit OperatorSet(std::vector<Operator> operators);
  // nullptr if missing.
  const Operator* Find(absl::string_view name) const;
  const std::vector<Operator>& all() const { return operators_; }

 private:
  std::vector<Operator> operators_;
  absl::flat_hash_map<std::string, size_t> by_name_;
};

// RowFamilies: the rows of a step by the old row that each continues. A beam search continues its
// best rows several times over: of five rows, three have different parents, say. What a kernel
// computes from the old state alone it then computes once for each parent; the bits are the same,
// since a row's result depends on no other row.

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

#endif  // BEAMWRIGHT_OPS_GRAPH_OPERATOR_H_
