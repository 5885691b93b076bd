// A chain runs over blocks of 512 elements: for each block all functions one after the other, each
// a vectorised loop from its operands' block to a block of scratch memory or, for a result, of the
// output. So a chain of n functions reads its inputs and writes its results once, and what lies
// between them stays in the first cache: n functions as n operators would pass n - 1 tensors
// through memory.
//
// The functions are in chain_functions.cc. 1. Attributes: ParseChain, CheckWiring. 2. Shapes. 3.
// ChainRun, the fast way, for inputs of one shape, of one element, or of one for each channel. 4.
// RunApart, for other broadcasts: function by function, as the operators would run.
//
// Example: Sigmoid(x + b) * Tanh(x) with x [4, 700] and b [4, 700] is functions {Add, Sigmoid,
// Tanh, Multiply} with operands {(0, 1), (2, -), (0, -), (3, 4)}: values 0 and 1 are the inputs, 2
// to 5 the functions' results. 2,800 elements are six blocks, the last of 240.
#include "ops/kernels/elementwise_chain.h"

#include <algorithm>
#include <array>
#include <utility>

#include "ops/base/vector_isa.h"
#include "ops/kernels/elementwise_loops.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/parallel.h"
#include "ops/kernels/tiles.h"

namespace beamwright::ops {
namespace {

constexpr int64_t kBlock = 512;           // elements that pass through all functions at a time
constexpr int64_t kMostSpread = 1 << 13;  // elements of channels that are spread once for a run
constexpr int64_t kUsualWork = 4;         // multiply-adds that a function of an element is worth
// Elements of a channel from which on blocks end with their channel, whose values are then numbers.
constexpr int64_t kLeastPlane = 128;

absl::Status CheckWiring(const ChainOptions& options) {
  const size_t num_inputs = options.windows.size();
  if (options.functions.empty() || num_inputs + options.functions.size() > kMostChainValues) {
    return Invalid("attribute functions: there must be one or more, with the inputs at most ",
                   kMostChainValues);
  }
  for (size_t i = 0; i < options.functions.size(); ++i) {
    const ChainOptions::Function& function = options.functions[i];
    const int operands = ChainOperands(function.op);
    const auto known = static_cast<int64_t>(num_inputs + i);
    if (operands == 0) {
      return Invalid("attribute functions: '", function.op, "' is not one of a chain's");
    }
    if (function.first < 0 || function.first >= known || function.second >= known ||
        (operands == 2) != (function.second >= 0)) {
      return Invalid("attribute operands: ", function.first, " and ", function.second,
                     " are not those of function ", i);
    }
  }
  for (const ChainOptions::Window& window : options.windows) {
    if (window.first < 0 || window.count < -1 || (window.count == -1 && window.first != 0)) {
      return Invalid("attribute windows: ", window.count, " elements from ", window.first);
    }
  }
  std::vector<bool> gives(options.functions.size(), false);
  for (const int64_t result : options.results) {
    if (result < 0 || result >= static_cast<int64_t>(gives.size()) ||
        gives[static_cast<size_t>(result)]) {
      return Invalid("attribute results: ", result, " is not a function, or is named twice");
    }
    gives[static_cast<size_t>(result)] = true;
  }
  return options.results.empty() ? Invalid("attribute results: must name a function")
                                 : absl::OkStatus();
}

// A window is a part of the last axis, as a Split would give it: `count` elements from `first` on.
absl::StatusOr<PartialShape> WindowShape(const PartialShape& shape,
                                         const ChainOptions::Window& window) {
  if (window.count < 0 || !shape.has_rank()) {
    return shape;
  }
  if (shape.rank() == 0 ||
      (shape.dims().back() >= 0 && window.first + window.count > shape.dims().back())) {
    return Invalid("attribute windows: ", window.count, " elements from ", window.first,
                   " are not in ", shape.ToString());
  }
  Shape dims = shape.dims();
  dims.back() = window.count;
  return PartialShape(std::move(dims));
}

// Shapes of all values, inputs first.
absl::StatusOr<std::vector<PartialShape>> ValueShapes(const ChainOptions& options,
                                                      absl::Span<const InputInfo> inputs) {
  std::vector<PartialShape> shapes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    BW_RETURN_IF_ERROR(ExpectType(inputs[i], "inputs", {DType::kF32}));
    BW_ASSIGN_OR_RETURN(PartialShape shape, WindowShape(inputs[i].shape, options.windows[i]));
    shapes.push_back(std::move(shape));
  }
  for (const ChainOptions::Function& function : options.functions) {
    PartialShape shape = shapes[static_cast<size_t>(function.first)];
    if (function.second >= 0) {
      BW_ASSIGN_OR_RETURN(shape,
                          BroadcastPartial(shape, shapes[static_cast<size_t>(function.second)]));
    }
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

// One run over inputs of one shape, of one element, or of one for each channel.
class ChainRun {
 public:
  ChainRun(const ChainOptions& options, absl::Span<const Tensor* const> inputs,
           absl::Span<Tensor> outputs)
      : options_(options), num_inputs_(inputs.size()) {
    const Shape& shape = outputs[0].shape();
    const bool has_windows =
        std::any_of(options.windows.begin(), options.windows.end(),
                    [](const ChainOptions::Window& window) { return window.count >= 0; });
    const int64_t plane = has_windows ? 0 : CommonPlane(inputs, shape);
    const bool by_channel = plane >= kLeastPlane;
    width_ = has_windows ? shape.back() : (by_channel ? plane : outputs[0].num_elements());
    rows_ = width_ == 0 ? 0 : outputs[0].num_elements() / width_;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ChainOptions::Window& window = options.windows[i];
      const float* const data = inputs[i]->data<float>() + window.first;
      if (window.count < 0 && inputs[i]->num_elements() == 1) {
        sources_[i] = {data, 0, 0, 1, 1};
        sources_[i].is_one = true;
      } else if (inputs[i]->shape() != shape && !has_windows) {
        const auto axis = shape.end() - ChannelAxis(inputs[i]->shape());
        sources_[i] = {data, 0, 0, *axis, NumElements(Shape(axis + 1, shape.end()))};
        sources_[i].is_one = by_channel;
        if (rows_ > 0 && !by_channel && sources_[i].inner < kBlock / 8 &&
            *axis * sources_[i].inner <= kMostSpread) {
          SpreadOnce(sources_[i], spread_[i]);
        }
      } else {
        sources_[i] = {data, has_windows ? inputs[i]->shape().back() : width_, 1};
      }
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      targets_[static_cast<size_t>(options.results[i])] = outputs[i].mutable_data<float>();
    }
    ChooseFunctions();
  }

  void Run(int num_threads) const {
    const int64_t blocks = CeilDiv(width_, kBlock);
    const int64_t work = rows_ * width_ * static_cast<int64_t>(apply_.size()) * kUsualWork;
    ParallelFor(num_threads, rows_ * blocks, work, [&](int64_t item) {
      const int64_t first = item % blocks * kBlock;
      RunBlock(item / blocks, first, std::min(kBlock, width_ - first));
    });
  }

 private:
  struct Source {
    const float* data = nullptr;
    int64_t stride = 0;  // of rows
    int64_t step = 0;    // 0: a number, or one for each channel
    // Of an input with one element for each channel: their number, and that of the elements of the
    // result that lie in one. Of a number: 1 and 1.
    int64_t channels = 0;
    int64_t inner = 0;
    int64_t period = 0;   // of elements that were spread before, and repeat
    bool is_one = false;  // a number for all elements of a row
  };

  // The elements of the result in one channel, if all inputs with channels have as many; 0 if they
  // differ, or without such inputs.
  static int64_t CommonPlane(absl::Span<const Tensor* const> inputs, const Shape& shape) {
    int axis = 0;
    for (const Tensor* const input : inputs) {
      if (input->num_elements() == 1 || input->shape() == shape) {
        continue;
      }
      const int own = ChannelAxis(input->shape());
      if (axis != 0 && own != axis) {
        return 0;
      }
      axis = own;
    }
    return axis == 0 ? 0 : NumElements(Shape(shape.end() - axis + 1, shape.end()));
  }

  // A number is an operand as it is where the other operand is a block; elsewhere it is spread.
  void ChooseFunctions() {
    const auto is_one = [&](int64_t value) {
      return value >= 0 && value < static_cast<int64_t>(num_inputs_) &&
             sources_[static_cast<size_t>(value)].is_one;
    };
    for (const ChainOptions::Function& function : options_.functions) {
      if (is_one(function.first) && (function.second < 0 || is_one(function.second))) {
        sources_[static_cast<size_t>(function.first)].is_one = false;
      }
    }
    for (const ChainOptions::Function& function : options_.functions) {
      const ElementFunction& found = *FindElementFunction(function.op);
      apply_.push_back(is_one(function.first)    ? found.first_is_one
                       : is_one(function.second) ? found.second_is_one
                                                 : found.apply);
    }
  }

  // The elements of channels for elements [first, first + count) of the result.
  static void Spread(const Source& source, int64_t first, int64_t count, float* out) {
    if (source.channels == 1) {
      Fill(*source.data, count, out);
      return;
    }
    int64_t channel = first / source.inner % source.channels;
    int64_t length = source.inner - first % source.inner;
    for (int64_t i = 0; i < count;) {
      length = std::min(length, count - i);
      Fill(source.data[channel], length, out + i);
      i += length;
      length = source.inner;
      channel = channel + 1 < source.channels ? channel + 1 : 0;
    }
  }

  static void Fill(float value, int64_t count, float* out) {
    Vectorized([=]() BW_ALWAYS_INLINE {
      for (int64_t i = 0; i < count; ++i) {
        out[i] = value;
      }
    });
  }

  // Channels with few positions: the spread elements of one item, followed by the first kBlock of
  // them again, so that each block reads its elements in a row.
  void SpreadOnce(Source& source, std::vector<float>& spread) const {
    const int64_t period = source.channels * source.inner;
    spread.resize(static_cast<size_t>(period + kBlock));
    Spread(source, 0, period + kBlock, spread.data());
    source.data = spread.data();
    source.period = period;
    source.channels = 0;
  }

  // 1. Operands that are inputs: where their elements of this block lie, or, for channels, a copy
  //    in which each element is repeated as often as its channel has positions. 2. The functions in
  //    order. A result that is read elsewhere is written into its output, where later functions of
  //    the chain read it.
  void RunBlock(int64_t row, int64_t first, int64_t count) const {
    alignas(64) float scratch[kMostChainValues][kBlock];
    const float* values[kMostChainValues];
    for (size_t i = 0; i < num_inputs_; ++i) {
      const Source& source = sources_[i];
      values[i] = source.data + row * source.stride + first * source.step;
      if (source.is_one) {
        values[i] = source.data + row % source.channels;
      } else if (source.channels > 0) {
        float* const spread = scratch[apply_.size() + i];
        Spread(source, row * width_ + first, count, spread);
        values[i] = spread;
      } else if (source.period > 0) {
        values[i] = source.data + first % source.period;
      }
    }
    for (size_t i = 0; i < apply_.size(); ++i) {
      const ChainOptions::Function& function = options_.functions[i];
      float* const out = targets_[i] == nullptr ? scratch[i] : targets_[i] + row * width_ + first;
      const float* const second = function.second < 0
                                      ? function.bounds.data()
                                      : values[static_cast<size_t>(function.second)];
      apply_[i](values[static_cast<size_t>(function.first)], second, count, out);
      values[num_inputs_ + i] = out;
    }
  }

  const ChainOptions& options_;
  const size_t num_inputs_;
  int64_t rows_ = 0;
  int64_t width_ = 0;
  std::array<std::vector<float>, kMostChainValues> spread_;
  std::array<Source, kMostChainValues> sources_;
  std::array<float*, kMostChainValues> targets_{};  // by function; null: not read elsewhere
  std::vector<ElementApply> apply_;                 // by function
};

// A window as a separate tensor.
Tensor CutWindow(const Tensor& input, const ChainOptions::Window& window) {
  if (window.count < 0) {
    return input;
  }
  Shape shape = input.shape();
  const int64_t width = shape.back();
  shape.back() = window.count;
  Tensor cut(DType::kF32, std::move(shape));
  for (int64_t row = 0; window.count > 0 && row < cut.num_elements() / window.count; ++row) {
    std::copy_n(input.data<float>() + row * width + window.first, window.count,
                cut.mutable_data<float>() + row * window.count);
  }
  return cut;
}

Tensor ApplyBroadcast(ElementApply apply, const Tensor& a, const Tensor& b,
                      const PartialShape& shape) {
  Tensor result(DType::kF32, shape.dims());
  const absl::Span<const int64_t> shapes[] = {a.shape(), b.shape()};
  BroadcastPlan(result.shape(), shapes)
      .ForEachRow(
          [&](int64_t offset, int64_t count, const PerOperand& offsets, const PerOperand& steps) {
            const int64_t at_once = steps[0] == 1 && steps[1] == 1 ? count : 1;
            for (int64_t i = 0; i < count; i += at_once) {
              apply(a.data<float>() + offsets[0] + i * steps[0],
                    b.data<float>() + offsets[1] + i * steps[1], at_once,
                    result.mutable_data<float>() + offset + i);
            }
          });
  return result;
}

// The same where shapes differ, function by function.
void RunApart(const ChainOptions& options, absl::Span<const Tensor* const> inputs,
              absl::Span<const PartialShape> shapes, absl::Span<Tensor> outputs) {
  std::vector<Tensor> values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    values.push_back(CutWindow(*inputs[i], options.windows[i]));
  }
  for (const ChainOptions::Function& function : options.functions) {
    const Tensor& first = values[static_cast<size_t>(function.first)];
    const ElementApply apply = FindElementFunction(function.op)->apply;
    if (function.second < 0) {
      Tensor value(DType::kF32, shapes[values.size()].dims());
      apply(first.data<float>(), function.bounds.data(), value.num_elements(),
            value.mutable_data<float>());
      values.push_back(std::move(value));
    } else {
      const Tensor& second = values[static_cast<size_t>(function.second)];
      values.push_back(ApplyBroadcast(apply, first, second, shapes[values.size()]));
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs[i] = values[inputs.size() + static_cast<size_t>(options.results[i])];
  }
}

struct ElementwiseChainOp {
  using Options = ChainOptions;
  static absl::StatusOr<Options> Parse(const Node& node) {
    return ParseChain(node, node.inputs.size());
  }

  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(
        ExpectCounts(inputs, inputs.size(), inputs.size(), outputs, options.results.size()));
    BW_ASSIGN_OR_RETURN(const std::vector<PartialShape> shapes, ValueShapes(options, inputs));
    for (size_t i = 0; i < outputs.size(); ++i) {
      outputs[i].dtype = DType::kF32;
      outputs[i].shape = shapes[inputs.size() + static_cast<size_t>(options.results[i])];
    }
    return absl::OkStatus();
  }

  // All outputs of one shape, and each input of that shape, of one element, or of one for each
  // channel: then blocks run through the chain. Any other broadcast runs function by function.
  static absl::Status Compute(const Options& options, const ExecutionContext& context,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    BW_ASSIGN_OR_RETURN(const std::vector<PartialShape> shapes,
                        ValueShapes(options, DescribeInputs(inputs)));
    const Shape& shape = outputs[0].shape();
    bool alike = std::all_of(outputs.begin(), outputs.end(),
                             [&](const Tensor& output) { return output.shape() == shape; });
    const bool has_windows =
        std::any_of(options.windows.begin(), options.windows.end(),
                    [](const ChainOptions::Window& window) { return window.count >= 0; });
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool is_one = options.windows[i].count < 0 && inputs[i]->num_elements() == 1;
      const int axis = has_windows ? 0 : ChannelAxis(inputs[i]->shape());
      const bool is_channels =
          axis > 0 && inputs[i]->shape().size() <= shape.size() &&
          shape[shape.size() - static_cast<size_t>(axis)] == inputs[i]->num_elements();
      alike = alike && (is_one || is_channels || shapes[i].dims() == shape);
    }
    if (alike) {
      ChainRun(options, inputs, outputs).Run(context.num_threads);
    } else {
      RunApart(options, inputs, shapes, outputs);
    }
    return absl::OkStatus();
  }
};

}  // namespace

int ChannelAxis(absl::Span<const int64_t> shape) {
  int found = 0;
  for (size_t i = 1; i <= shape.size(); ++i) {
    if (shape[shape.size() - i] != 1) {
      if (found != 0) {
        return 0;
      }
      found = static_cast<int>(i);
    }
  }
  return found > 1 ? found : 0;
}

int ChainOperands(absl::string_view op) {
  const ElementFunction* const function = FindElementFunction(op);
  return function == nullptr ? 0 : function->operands;
}

ChainOptions::Function FunctionOf(const Node& node, int64_t first, int64_t second) {
  ChainOptions::Function function = {node.op, first, second};
  if (node.op == "Clamp") {
    const auto bound = [&](const char* name, float none) {
      return static_cast<float>(node.attributes.Float(name, none).value_or(none));
    };
    const auto& [least, most] = ChainOptions::kNoBounds;
    function.bounds = {bound("min", least), bound("max", most)};
  }
  return function;
}

absl::StatusOr<ChainOptions> ParseChain(const Node& node, size_t num_inputs) {
  BW_ASSIGN_OR_RETURN(const std::vector<std::string> functions,
                      node.attributes.Strings("functions", {}));
  BW_ASSIGN_OR_RETURN(const std::vector<int64_t> operands, node.attributes.Ints("operands", {}));
  BW_ASSIGN_OR_RETURN(const std::vector<int64_t> windows, node.attributes.Ints("windows", {}));
  ChainOptions options;
  BW_ASSIGN_OR_RETURN(options.results, node.attributes.Ints("results", {}));
  if (operands.size() != 2 * functions.size() || windows.size() != 2 * num_inputs) {
    return Invalid("attributes operands and windows: must have two entries for each function and ",
                   "for each input");
  }
  BW_ASSIGN_OR_RETURN(const std::vector<double> bounds, node.attributes.Floats("bounds", {}));
  if (!bounds.empty() && bounds.size() != 2 * functions.size()) {
    return Invalid("attribute bounds: must have two entries for each function");
  }
  for (size_t i = 0; i < functions.size(); ++i) {
    options.functions.push_back({functions[i], operands[2 * i], operands[2 * i + 1]});
    if (!bounds.empty()) {
      options.functions[i].bounds = {static_cast<float>(bounds[2 * i]),
                                     static_cast<float>(bounds[2 * i + 1])};
    }
  }
  for (size_t i = 0; i < num_inputs; ++i) {
    options.windows.push_back({windows[2 * i], windows[2 * i + 1]});
  }
  BW_RETURN_IF_ERROR(CheckWiring(options));
  return options;
}

// The inverse of ParseChain: passes write what they fused as attributes of the node.
void ChainOptions::Write(Attributes& attributes) const {
  std::vector<std::string> names;
  std::vector<int64_t> operands;
  std::vector<double> bounds;
  bool has_bounds = false;
  for (const Function& function : functions) {
    names.push_back(function.op);
    operands.insert(operands.end(), {function.first, function.second});
    bounds.insert(bounds.end(), {function.bounds[0], function.bounds[1]});
    has_bounds = has_bounds || function.bounds != kNoBounds;
  }
  std::vector<int64_t> parts;
  for (const Window& window : windows) {
    parts.insert(parts.end(), {window.first, window.count});
  }
  attributes.Set("functions", std::move(names));
  attributes.Set("operands", std::move(operands));
  attributes.Set("windows", std::move(parts));
  attributes.Set("results", results);
  if (has_bounds) {
    attributes.Set("bounds", std::move(bounds));
  }
}

// Rows have been separated when it is made, so this is never called.
constinit const OperatorCode kElementwiseChain = CodeOf<ElementwiseChainOp>(&ExtentRows);

}  // namespace beamwright::ops
