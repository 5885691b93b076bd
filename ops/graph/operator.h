// What the rest of the library knows of an operator: how it infers types and shapes, how a kernel
// is made for one node, and how its output rows follow from its input rows. One Operator per line
// of the registry (ops/kernels/registry.cc); an importer knows operators only by name.
#ifndef BEAMWRIGHT_OPS_GRAPH_OPERATOR_H_
#define BEAMWRIGHT_OPS_GRAPH_OPERATOR_H_

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

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_GRAPH_OPERATOR_H_
