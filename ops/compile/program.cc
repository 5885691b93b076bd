// A program: the nodes of a graph as a list of instructions, in order, each with its kernel. Values
// are in slots; the outputs of a node have neighbouring slots. Constants and values that are known
// are in their slots from the begin (constants_), so that a run copies this list of tensors, which
// share their memory.
//
// 1. Compile makes a kernel for every selected node that is not known. A graph may be compiled into
//    several programs (for example before, in and after a loop) that share slots.
// 2. DropUnread frees constants that no kernel reads at run time: packed weights are copies in the
//    kernels.
// 3. Run executes all instructions and checks between them whether the thread was interrupted.
//
// RunRepeating serves values with one row that an instruction combines with many rows: the row is
// repeated. RunRows lets a kernel read rows in place from a table, or share the sums of rows that
// continue the same state. ReleaseViews frees outputs that are views of inputs, so that an input's
// memory can be used again.
//
// Slots of a graph with three nodes, the second of two outputs: 0 is Parameter x, 1 and 2 are the
// parts of Split(x), 3 is Add of both. Slots = [x, part, part, sum]; an instruction is {kernel,
// inputs {1, 2}, first output 3, one output}.
#include "ops/compile/program.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "ops/base/status.h"
#include "ops/tensor/tensor_memory.h"

namespace beamwright::ops {
namespace {

bool IsView(const Tensor& value, const Tensor& of) {
  return value.has_value() && of.has_value() && value.place() >= of.place() &&
         value.place() < of.place() + std::max<int64_t>(of.num_bytes(), 1);
}

using Inputs = absl::InlinedVector<const Tensor*, 8>;

Inputs InputsOf(const Program::Instruction& instruction, const Slots& slots) {
  static const Tensor absent;
  Inputs inputs;
  for (const int slot : instruction.inputs) {
    inputs.push_back(slot < 0 ? &absent : &slots[static_cast<size_t>(slot)]);
  }
  return inputs;
}

absl::Span<Tensor> Outputs(const Program::Instruction& instruction, Slots& slots) {
  return absl::MakeSpan(slots).subspan(static_cast<size_t>(instruction.first_output),
                                       static_cast<size_t>(instruction.num_outputs));
}

}  // namespace

// 1. Every output of every node gets a slot, whether the node is selected or not, so that all
//    programs of a graph agree on slots. Known values are put there.
// 2. Selected nodes that compute something become instructions, in the order of the nodes, which is
//    topological.
absl::StatusOr<Program> Program::Compile(const Graph& graph, const GraphInfo& info,
                                         const OperatorSet& operators,
                                         const std::vector<bool>& selected) {
  BW_CHECK(selected.size() == graph.nodes.size());
  Program program;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    program.first_slot_.push_back(static_cast<int>(program.constants_.size()));
    for (const Tensor& constant : info.constants[i]) {
      program.constants_.push_back(constant);
    }
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const bool structural = node.op == "Parameter" || node.op == "Constant" || node.op == "Result";
    if (!selected[i] || structural || info.IsKnown(static_cast<int>(i))) {
      continue;
    }
    const Operator* op = operators.Find(node.op);
    if (op == nullptr) {
      return absl::UnimplementedError(absl::StrCat(Describe(node), ": operator is not supported"));
    }
    Instruction instruction;
    instruction.node = static_cast<int>(i);
    instruction.name = Describe(node);
    const std::vector<InputInfo> inputs = info.InputsOf(graph, node);
    absl::StatusOr<std::unique_ptr<Kernel>> kernel =
        op->make(KernelRequest{node, inputs, operators, info.bodies[i]});
    if (!kernel.ok()) {
      return Annotate(kernel.status(), instruction.name);
    }
    instruction.kernel = *std::move(kernel);
    instruction.by_source = dynamic_cast<const RowSourceKernel*>(instruction.kernel.get());
    for (const ValueId id : node.inputs) {
      instruction.inputs.push_back(id.present() ? program.slot(id) : -1);
    }
    instruction.first_output = program.first_slot_[i];
    instruction.num_outputs = static_cast<int>(node.outputs.size());
    program.instructions_.push_back(std::move(instruction));
    ForgetIdle();  // the kernel has what it needs of them
  }
  return program;
}

std::vector<Program::Reader> Program::Readers(int slot) const {
  std::vector<Reader> readers;
  for (size_t i = 0; i < instructions_.size(); ++i) {
    for (size_t port = 0; port < instructions_[i].inputs.size(); ++port) {
      if (instructions_[i].inputs[port] == slot) {
        readers.push_back({i, port});
      }
    }
  }
  return readers;
}

// A kernel may read an input at load alone, as a product does its packed weight: then the run does
// not read it.
bool Program::Reads(int slot) const {
  const std::vector<Reader> readers = Readers(slot);
  return std::any_of(readers.begin(), readers.end(), [this](const Reader& reader) {
    return instructions_[reader.instruction].kernel->NeedsInput(reader.port);
  });
}

bool Program::Computes(int slot) const {
  return std::any_of(instructions_.begin(), instructions_.end(), [slot](const Instruction& made) {
    return slot >= made.first_output && slot < made.first_output + made.num_outputs;
  });
}

// Marks the slots that must keep their constants: those of `kept`, of the graph's results, and
// those that a kernel of any of the programs reads in a run. All others are dropped in all
// programs, which share slots.
void Program::DropUnread(const Graph& graph, absl::Span<Program* const> programs,
                         absl::Span<const ValueId> kept) {
  const Program& first = *programs.front();
  std::vector<bool> read(first.constants_.size(), false);
  const auto mark = [&](int slot) {
    if (slot >= 0) {
      read[static_cast<size_t>(slot)] = true;
    }
  };
  for (const ValueId id : kept) {
    mark(id.present() ? first.slot(id) : -1);
  }
  for (const int result : graph.results) {
    mark(first.slot(graph.node(result).inputs[0]));
  }
  for (const Program* program : programs) {
    for (const Instruction& instruction : program->instructions_) {
      for (size_t port = 0; port < instruction.inputs.size(); ++port) {
        if (instruction.kernel->NeedsInput(port)) {
          mark(instruction.inputs[port]);
        }
      }
    }
  }
  for (Program* program : programs) {
    for (size_t slot = 0; slot < read.size(); ++slot) {
      if (!read[slot]) {
        program->constants_[slot] = Tensor();
      }
    }
  }
}

absl::Status Program::RunInstruction(const Instruction& instruction,
                                     const ExecutionContext& context, Slots& slots) {
  return RunRepeating(instruction, context, slots, {}, 1);
}

absl::Status Program::RunRows(const Instruction& instruction, const ExecutionContext& context,
                              const RowSources& sources, const Tensor* table, Slots& slots) {
  Inputs inputs = InputsOf(instruction, slots);
  if (table != nullptr) {
    inputs[static_cast<size_t>(instruction.by_source->table_input())] = table;
  }
  absl::Status status =
      instruction.by_source->RunRows(context, inputs, sources, Outputs(instruction, slots));
  return status.ok() ? status : Annotate(status, instruction.name);
}

absl::Status Program::RunRepeating(const Instruction& instruction, const ExecutionContext& context,
                                   Slots& slots, absl::Span<const int> repeated,
                                   int64_t repeat_rows) {
  Inputs inputs = InputsOf(instruction, slots);
  std::vector<Tensor> copies;
  copies.reserve(repeated.size());
  for (const int slot : repeated) {
    const Tensor& value = slots[static_cast<size_t>(slot)];
    if (repeat_rows == 1 || value.rank() == 0) {
      continue;
    }
    copies.push_back(RepeatRow(value, repeat_rows));
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (instruction.inputs[i] == slot) {
        inputs[i] = &copies.back();
      }
    }
  }
  absl::Status status = instruction.kernel->Run(context, inputs, Outputs(instruction, slots));
  return status.ok() ? status : Annotate(status, instruction.name);
}

absl::Status Program::Run(const ExecutionContext& context, Slots& slots) const {
  for (const Instruction& instruction : instructions_) {
    BW_RETURN_IF_ERROR(context.CheckInterruption());
    BW_RETURN_IF_ERROR(RunInstruction(instruction, context, slots));
  }
  return absl::OkStatus();
}

void Program::ReleaseViews(const Instruction& instruction, Slots& slots) {
  for (int output = 0; output < instruction.num_outputs; ++output) {
    Tensor& value = slots[static_cast<size_t>(instruction.first_output + output)];
    for (const int input : instruction.inputs) {
      if (input >= 0 && IsView(value, slots[static_cast<size_t>(input)])) {
        value = Tensor();
      }
    }
  }
}

void Program::ReleaseViews(Slots& slots) const {
  for (size_t i = instructions_.size(); i-- > 0;) {
    ReleaseViews(instructions_[i], slots);
  }
}

// [1, ...] becomes [count, ...]: the bytes of the row, `count` times.
Tensor RepeatRow(const Tensor& tensor, int64_t count) {
  Shape shape = tensor.shape();
  shape[0] *= count;
  Tensor result(tensor.dtype(), shape);
  const int64_t bytes = tensor.num_bytes();
  for (int64_t i = 0; i < count; ++i) {
    std::copy_n(tensor.bytes(), bytes, result.mutable_bytes() + i * bytes);
  }
  return result;
}

// One pass from the last node to the first is enough: inputs of a node lie before it.
std::vector<bool> AncestorsOf(const Graph& graph, absl::Span<const ValueId> values) {
  std::vector<bool> reached(graph.nodes.size(), false);
  for (const ValueId id : values) {
    if (id.present()) {
      reached[static_cast<size_t>(id.node)] = true;
    }
  }
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    if (reached[i]) {
      for (const ValueId id : graph.nodes[i].inputs) {
        if (id.present()) {
          reached[static_cast<size_t>(id.node)] = true;
        }
      }
    }
  }
  return reached;
}

}  // namespace beamwright::ops
