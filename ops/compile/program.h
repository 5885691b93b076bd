// Program: the nodes of a graph that must run, in order, each with its kernel. Values live in
// numbered slots that the caller owns (a Slots), so one Program serves many threads and keeps
// nothing between runs.
#ifndef BEAMWRIGHT_OPS_COMPILE_PROGRAM_H_
#define BEAMWRIGHT_OPS_COMPILE_PROGRAM_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "ops/graph/inference.h"
#include "ops/graph/operator.h"

namespace beamwright::ops {

// One tensor per value of the graph. Reuse it from run to run: buffers are kept.
using Slots = std::vector<Tensor>;

class Program {
 public:
  struct Instruction {
    int node = -1;
    std::string name;  // Describe(node), for messages
    std::unique_ptr<Kernel> kernel;
    std::vector<int> inputs;  // slots, -1: absent
    int first_output = 0;     // the outputs' slots follow one another
    int num_outputs = 0;
    const RowSourceKernel* by_source = nullptr;  // the kernel, if it is one
  };

  struct Reader {
    size_t instruction = 0;
    size_t port = 0;  // of its inputs
  };

  // Compiles the selected nodes ([node] -> bool); Parameters, Constants, Results and whatever is
  // known at load need no instruction. Errors name the node.
  static absl::StatusOr<Program> Compile(const Graph& graph, const GraphInfo& info,
                                         const OperatorSet& operators,
                                         const std::vector<bool>& selected);

  int num_slots() const { return static_cast<int>(constants_.size()); }
  int slot(ValueId id) const { return first_slot_[static_cast<size_t>(id.node)] + id.output; }
  const std::vector<Instruction>& instructions() const { return instructions_; }

  // Of a graph whose programs are `programs` (their slots are the same): forgets the constants that
  // no instruction reads, because kernels have packed them or because they only served to compute
  // others, unless they are in `kept` or a Result of the graph. Weights would be held twice.
  static void DropUnread(const Graph& graph, absl::Span<Program* const> programs,
                         absl::Span<const ValueId> kept = {});
  // Where the slot stands among the instructions' inputs, in order.
  std::vector<Reader> Readers(int slot) const;
  // Whether an instruction needs the slot in its runs; whether one computes it.
  bool Reads(int slot) const;
  bool Computes(int slot) const;

  // Slots with the constants in place.
  Slots MakeSlots() const { return constants_; }
  // Runs all instructions, or those before it is interrupted (Cancelled). The caller has set the
  // slots that nothing here computes.
  absl::Status Run(const ExecutionContext& context, Slots& slots) const;
  // Runs one. Its error names the node. RunRepeating gives it `repeat_rows` copies of the values in
  // `repeated`, one after another along the first axis.
  static absl::Status RunInstruction(const Instruction& instruction,
                                     const ExecutionContext& context, Slots& slots);
  static absl::Status RunRepeating(const Instruction& instruction, const ExecutionContext& context,
                                   Slots& slots, absl::Span<const int> repeated,
                                   int64_t repeat_rows);
  // The same of one whose kernel is a RowSourceKernel. table: what it gets as its table_input().
  static absl::Status RunRows(const Instruction& instruction, const ExecutionContext& context,
                              const RowSources& sources, const Tensor* table, Slots& slots);
  // Lets go of what the instruction computed where it shares an input's buffer (a Reshape does), so
  // that the buffer has one owner again and can be written in the next run. Views of views are
  // known by what they view: release the last instruction first.
  static void ReleaseViews(const Instruction& instruction, Slots& slots);
  // Of all instructions.
  void ReleaseViews(Slots& slots) const;

 private:
  std::vector<int> first_slot_;  // by node
  Slots constants_;
  std::vector<Instruction> instructions_;
};

// `count` copies of a tensor, one after another along its first axis.
Tensor RepeatRow(const Tensor& tensor, int64_t count);

// Nodes that the given values depend on, [node] -> bool.
std::vector<bool> AncestorsOf(const Graph& graph, absl::Span<const ValueId> values);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_PROGRAM_H_
