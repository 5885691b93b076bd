// Slices of a loop's inputs and the joining of its outputs.
//
// Slicer gives the part of an input that iteration i reads: elements [first + i step, + part_size)
// of an axis. If the parts are contiguous and not small, a part is a view of the input; else it is
// copied (Take). TakeRows gives the first rows only, when a batch shrinks because shorter sources
// have ended; Rows gives a view as a matrix for cells that read rows in place.
//
// Collector joins the parts that iterations give, along an existing axis or a new one. If the
// number of iterations is known, the output is allocated with the first part and each part is
// written to its place (Start, Place); else the parts are kept and joined at the end (Finish).
// AddRows fills the rows of sources that have ended with zeros. Sizes are checked before memory is
// taken, as trip counts come from requests.
//
// A tensor is seen as [outer, axis, inner] (AxisView), so that a part is `outer` pieces of
// contiguous bytes.
//
// A loop whose body is one cell runs on the parts' rows (CellLoop).
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "ops/base/status.h"
#include "ops/loop/sequence_driver.h"
#include "ops/tensor/tensor_memory.h"

namespace beamwright::ops {
namespace {

// Bytes that a tensor takes besides its elements: the rounding of its buffer, and its shape on the
// heap.
constexpr int64_t kTensorBytes = static_cast<int64_t>(sizeof(Tensor)) + 256;
// A smaller part is copied as fast as a view of it is made.
constexpr int64_t kMinViewBytes = 1024;

// A tensor seen as [outer, axis, inner] in bytes.
struct AxisView {
  int64_t outer = 1;
  int64_t extent = 1;
  int64_t inner_bytes = 0;
};

AxisView ViewAxis(const Tensor& tensor, int axis) {
  AxisView view;
  view.inner_bytes = SizeOf(tensor.dtype());
  for (int i = 0; i < tensor.rank(); ++i) {
    if (i < axis) {
      view.outer *= tensor.dim(i);
    } else if (i == axis) {
      view.extent = tensor.dim(i);
    } else {
      view.inner_bytes *= tensor.dim(i);
    }
  }
  return view;
}

// Copies elements [begin, begin + length) of an axis between a whole tensor and a part of it.
void CopyPart(const AxisView& whole, std::byte* whole_bytes, std::byte* part_bytes, int64_t begin,
              int64_t length, bool to_part) {
  const auto bytes = static_cast<size_t>(length * whole.inner_bytes);
  for (int64_t i = 0; bytes > 0 && i < whole.outer; ++i) {
    std::byte* in_whole = whole_bytes + (i * whole.extent + begin) * whole.inner_bytes;
    std::byte* in_part = part_bytes + i * length * whole.inner_bytes;
    std::memcpy(to_part ? in_part : in_whole, to_part ? in_whole : in_part, bytes);
  }
}

}  // namespace

absl::Status TooManyParts(int64_t count, const Shape& part) {
  return TooLarge(absl::StrCat("what ", count, " iterations give, ", ToString(part), " each,"));
}

void CopyToFront(const Tensor& part, int axis, Tensor& whole) {
  CopyPart(ViewAxis(whole, axis), whole.mutable_bytes(), const_cast<std::byte*>(part.bytes()), 0,
           part.dim(axis), false);
}

absl::StatusOr<Slicer> Slicer::Make(const LoopInput& rule, const Tensor& source, int64_t length) {
  const std::string where = absl::StrCat("input port ", rule.external_id);
  Slicer slicer;
  slicer.drop_axis_ = rule.drop_axis;
  slicer.source_ = source;
  absl::StatusOr<int> axis = NormalizeAxis(rule.axis, source.rank());
  if (!axis.ok()) {
    return Annotate(axis.status(), where);
  }
  slicer.axis_ = *axis;
  absl::StatusOr<SliceRange> range = ResolveSlice(rule, length < 0 ? source.dim(*axis) : length);
  if (!range.ok()) {
    return Annotate(range.status(), where);
  }
  slicer.range_ = *range;
  const AxisView view = ViewAxis(source, *axis);
  if (view.outer == 1 && slicer.range_.part_size * view.inner_bytes >= kMinViewBytes) {
    slicer.together_ = source.Reshaped({view.extent, view.inner_bytes / SizeOf(source.dtype())});
  }
  return slicer;
}

Shape Slicer::PartShape() const {
  Shape shape = source_.shape();
  if (drop_axis_) {
    shape.erase(shape.begin() + axis_);
  } else {
    shape[static_cast<size_t>(axis_)] = range_.part_size;
  }
  return shape;
}

void Slicer::Take(int64_t iteration, Tensor& part) const {
  if (together_.has_value()) {
    const int64_t begin = range_.first + iteration * range_.step;
    part = together_.Rows(begin, begin + range_.part_size).Reshaped(PartShape());
    return;
  }
  part.Resize(source_.dtype(), PartShape());
  // The view only reads the source.
  CopyPart(ViewAxis(source_, axis_), const_cast<std::byte*>(source_.bytes()), part.mutable_bytes(),
           range_.first + iteration * range_.step, range_.part_size, true);
}

void Slicer::TakeRows(int64_t iteration, int64_t rows, Tensor& part) const {
  if (together_.has_value()) {
    Take(iteration, part);
    part = part.Rows(0, rows);
    return;
  }
  Shape shape = PartShape();
  const int64_t all_rows = std::exchange(shape[0], rows);
  part.Resize(source_.dtype(), shape);
  const int64_t begin = range_.first + iteration * range_.step;
  AxisView view = ViewAxis(source_, axis_);
  if (axis_ == 0) {
    // [parts, rows, ...]: those of a part stand together.
    std::memcpy(part.mutable_bytes(), source_.bytes() + begin * view.inner_bytes,
                static_cast<size_t>(part.num_bytes()));
    return;
  }
  view.outer = view.outer / all_rows * rows;
  CopyPart(view, const_cast<std::byte*>(source_.bytes()), part.mutable_bytes(), begin,
           range_.part_size, true);
}

ConstMatrix<float> Slicer::Rows(int64_t iteration, int64_t rows) const {
  const AxisView view = ViewAxis(source_, axis_);
  const int64_t inner = view.inner_bytes / static_cast<int64_t>(sizeof(float));
  if (source_.dtype() != DType::kF32 || range_.part_size != 1 || rows < 1 ||
      (view.outer != 1 && view.outer != rows) || inner * view.outer % rows != 0) {
    return {};
  }
  const float* const part =
      source_.data<float>() + (range_.first + iteration * range_.step) * inner;
  return view.outer == 1 ? ConstMatrix<float>{part, rows, inner / rows, inner / rows}
                         : ConstMatrix<float>{part, rows, inner, view.extent * inner};
}

absl::Status Collector::Expect(const Shape& shape, DType dtype, Tensor& output) {
  if (count_ == 0) {
    part_shape_ = shape;
    part_dtype_ = dtype;
    if (trips_ >= 0) {
      BW_RETURN_IF_ERROR(Start(trips_, output));
    }
  }
  return shape == part_shape_ && dtype == part_dtype_
             ? absl::OkStatus()
             : Invalid("the part of iteration ", count_, " is ", ToString(shape),
                       ", the first one was ", ToString(part_shape_));
}

absl::Status Collector::Add(const Tensor& part, Tensor& output) {
  BW_RETURN_IF_ERROR(Expect(part.shape(), part.dtype(), output));
  if (trips_ >= 0) {
    AddLike(part.bytes(), output);
    return absl::OkStatus();
  }
  bytes_ += part.num_bytes() + kTensorBytes;
  if (bytes_ > MaxTensorBytes()) {
    return TooManyParts(count_ + 1, part_shape_);
  }
  parts_.push_back(part);
  ++count_;
  return absl::OkStatus();
}

absl::Status Collector::AddRows(const Tensor& part, int64_t all_rows, Tensor& output) {
  BW_CHECK(trips_ >= 0 && part.rank() > 0);
  Shape shape = part.shape();
  shape[0] = all_rows;
  BW_RETURN_IF_ERROR(Expect(shape, part.dtype(), output));
  PlaceRows(count_++, part, output);
  return absl::OkStatus();
}

absl::Status Collector::Finish(Tensor& output) {
  if (trips_ >= 0) {
    return absl::OkStatus();
  }
  trips_ = count_;
  BW_RETURN_IF_ERROR(Start(trips_, output));
  for (size_t i = 0; i < parts_.size(); ++i) {
    Place(static_cast<int64_t>(i), parts_[i].bytes(), output);
  }
  return absl::OkStatus();
}

absl::Status Collector::Start(int64_t trips, Tensor& output) {
  const bool adds_axis = rule_->kind == LoopOutput::Kind::kStacked || part_shape_.empty();
  BW_ASSIGN_OR_RETURN(axis_, NormalizeAxis(rule_->axis, static_cast<int>(part_shape_.size()) +
                                                            (adds_axis ? 1 : 0)));
  Shape shape = part_shape_;
  if (adds_axis) {
    shape.insert(shape.begin() + axis_, 1);
  }
  length_ = shape[static_cast<size_t>(axis_)];
  if (!adds_axis && length_ != rule_->part_size) {
    return Invalid("each part has ", length_, " elements on axis ", axis_, ", the rule says ",
                   rule_->part_size);
  }
  const int64_t part_bytes = NumElements(part_shape_) * SizeOf(part_dtype_);
  if (trips > MaxTensorBytes() / std::max<int64_t>(part_bytes, 1)) {
    return TooManyParts(trips, part_shape_);
  }
  shape[static_cast<size_t>(axis_)] = length_ * trips;
  output = std::move(memory_);
  output.Resize(part_dtype_, shape);
  return absl::OkStatus();
}

void Collector::Place(int64_t iteration, const void* elements, Tensor& output) const {
  auto* const part = static_cast<std::byte*>(const_cast<void*>(elements));  // only read
  CopyPart(ViewAxis(output, axis_), output.mutable_bytes(), part, PlaceOf(iteration) * length_,
           length_, false);
}

void Collector::PlaceRows(int64_t iteration, const Tensor& part, Tensor& output) const {
  const AxisView all = ViewAxis(output, axis_);
  const int64_t begin = PlaceOf(iteration) * length_;
  std::byte* const to = output.mutable_bytes();
  if (axis_ == 0) {
    // [parts, rows, ...]: those of a part stand together.
    const auto given = static_cast<size_t>(part.num_bytes());
    std::byte* const place = to + begin * all.inner_bytes;
    std::memcpy(place, part.bytes(), given);
    std::memset(place + given, 0, static_cast<size_t>(length_ * all.inner_bytes) - given);
    return;
  }
  AxisView given = all;
  given.outer = all.outer / part_shape_[0] * part.dim(0);
  CopyPart(given, to, const_cast<std::byte*>(part.bytes()), begin, length_, false);
  for (int64_t i = given.outer; i < all.outer; ++i) {
    std::memset(to + (i * all.extent + begin) * all.inner_bytes, 0,
                static_cast<size_t>(length_ * all.inner_bytes));
  }
}

// Runs a loop whose body is one LSTM or GRU cell without the machinery of loops.
//
// 1. Find, at load, accepts a loop if one node of the body computes something (OnlyNode), and is a
//    cell with fused steps; if one input is sliced, and it is the cell's first; if each state of
//    the cell is carried to itself; and if all outputs are the cell's.
// 2. Run, after the first iteration, which the usual loop runs: each iteration calls the cell's
//    Step on the matrices. States go to one of two buffers in turn, so that a step reads one and
//    writes the other. Outputs that are collected are copied.
namespace {

constexpr size_t kMostStates = 2;  // H and C

// The one node that computes something; -1: there are several, or none.
int OnlyNode(const Graph& graph, const GraphInfo& info) {
  int only = -1;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto index = static_cast<int>(i);
    const std::string& op = graph.nodes[i].op;
    if (op == "Parameter" || op == "Result" || info.IsKnown(index)) {
      continue;
    }
    if (only >= 0) {
      return -1;
    }
    only = index;
  }
  return only;
}

// Which output of node `cell` a result is; -1: something else.
int OutputOf(const Graph& graph, int cell, int result) {
  const ValueId value = graph.node(graph.results[static_cast<size_t>(result)]).inputs[0];
  return value.node == cell ? value.output : -1;
}

}  // namespace

std::optional<CellLoop> CellLoop::Find(const Loop& loop, const GraphInfo& body,
                                       const OperatorSet& operators) {
  const Graph& graph = loop.body;
  const int index = OnlyNode(graph, body);
  if (index < 0 || loop.condition_result >= 0 || loop.states_may_change_shape) {
    return std::nullopt;
  }
  const Node& node = graph.node(index);
  if (node.op != "LSTMCell" && node.op != "GRUCell") {
    return std::nullopt;
  }
  const auto parameter_of = [&](const LoopInput& rule) {
    return ValueId{graph.parameters[static_cast<size_t>(rule.body_parameter)], 0};
  };
  CellLoop found;
  found.states_.assign(node.outputs.size(), kMostStates);
  size_t num_states = 0;
  int num_sliced = 0;
  for (const LoopInput& rule : loop.inputs) {
    if (rule.kind == LoopInput::Kind::kIteration) {
      return std::nullopt;
    }
    if (rule.kind == LoopInput::Kind::kSliced) {
      if (++num_sliced > 1 || node.inputs[0] != parameter_of(rule)) {
        return std::nullopt;
      }
    } else if (rule.kind == LoopInput::Kind::kCarried) {
      const int output = OutputOf(graph, index, rule.back_edge);
      if (output < 0 || node.inputs[static_cast<size_t>(output) + 1] != parameter_of(rule) ||
          found.states_[static_cast<size_t>(output)] != kMostStates) {
        return std::nullopt;
      }
      found.states_[static_cast<size_t>(output)] = num_states++;
    }
  }
  if (num_sliced != 1 || num_states != found.states_.size() || num_states > kMostStates) {
    return std::nullopt;
  }
  for (const LoopOutput& rule : loop.outputs) {
    const int output = OutputOf(graph, index, rule.body_result);
    if (output < 0) {
      return std::nullopt;
    }
    found.collected_.push_back(rule.kind == LoopOutput::Kind::kLastValue ? -1 : output);
  }
  const std::vector<InputInfo> inputs = body.InputsOf(graph, node);
  absl::StatusOr<std::unique_ptr<Kernel>> kernel =
      operators.Find(node.op)->make({node, inputs, operators});
  const auto* const steps = kernel.ok() ? dynamic_cast<const CellSteps*>(kernel->get()) : nullptr;
  if (steps == nullptr || !steps->IsFused()) {
    return std::nullopt;
  }
  const auto bias = static_cast<size_t>(steps->bias_input());
  if (bias < node.inputs.size() && node.inputs[bias].present()) {
    if (inputs[bias].value == nullptr) {
      return std::nullopt;
    }
    found.bias_ = *inputs[bias].value;
  }
  found.kernel_ = *std::move(kernel);
  found.steps_ = steps;
  return found;
}

bool CellLoop::Fits(const Slicer& slicer, absl::Span<const Tensor> states) const {
  return slicer.Rows(0, states[0].dim(0)).data != nullptr;
}

absl::Status CellLoop::Run(const ExecutionContext& context, const Slicer& slicer, int64_t trips,
                           const std::function<absl::Status(int64_t)>& check,
                           absl::Span<Tensor> states, absl::Span<Collector> collectors,
                           absl::Span<Tensor> outputs) const {
  const size_t count = states_.size();
  const int64_t rows = states[0].dim(0);
  std::array<std::array<Tensor, kMostStates>, 2> memory;  // by iteration in turn, and state
  std::array<const float*, kMostStates> now{};
  for (size_t i = 0; i < count; ++i) {
    const Tensor& state = states[states_[i]];
    now[i] = state.data<float>();
    for (auto& turn : memory) {
      turn[i] = Tensor(DType::kF32, state.shape());
    }
  }
  const float* const bias = bias_.has_value() ? bias_.data<float>() : nullptr;
  for (int64_t iteration = 1; iteration < trips; ++iteration) {
    BW_RETURN_IF_ERROR(check(iteration));
    std::array<float*, kMostStates> next{};
    for (size_t i = 0; i < count; ++i) {
      next[i] = memory[static_cast<size_t>(iteration % 2)][i].mutable_data<float>();
    }
    steps_->Step(context, slicer.Rows(iteration, rows), bias, {now.data(), count},
                 {next.data(), count});
    for (size_t i = 0; i < collected_.size(); ++i) {
      if (collected_[i] >= 0) {
        collectors[i].AddLike(next[static_cast<size_t>(collected_[i])], outputs[i]);
      }
    }
    std::copy_n(next.begin(), count, now.begin());
  }
  for (size_t i = 0; trips > 1 && i < count; ++i) {
    states[states_[i]] = memory[static_cast<size_t>((trips - 1) % 2)][i];
  }
  return absl::OkStatus();
}

}  // namespace beamwright::ops
