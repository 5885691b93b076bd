// Runs graphs for `beamwright-graph run`, `replay` and `bench`. Inputs are named: OrderInputs
// brings them into the order of the graph's parameters and lists all that are missing, unknown or
// of another shape in one message. Replay compares the outputs with given ones: integers must be
// equal, floats agree relative to the largest expected value. BenchModel measures.
//
// The second half measures (from OpensFirstAxis on): made-up inputs, and times of runs.
#include "tools/graph/run.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "ops/base/json_writer.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"
#include "ops/kernels/team.h"
#include "tools/graph/ports.h"
#include "tools/graph/roles.h"

namespace beamwright::ops {

// One message for all faults, as in "inputs: 'x' is missing, 'y' is f32[2], 'z' is not known; the
// model's inputs are: ...". A user who maps names by hand mends them at once.
absl::StatusOr<std::vector<Tensor>> OrderInputs(const Graph& graph, const TensorMap& inputs) {
  const std::vector<std::string> names = UniquePortNames(graph, graph.parameters);
  std::vector<Tensor> ordered;
  std::vector<std::string> faults;
  std::vector<std::string> allowed;
  TensorMap surplus = inputs;
  for (size_t i = 0; i < names.size(); ++i) {
    const int node = graph.parameters[i];
    const ValueInfo& info = graph.node(node).outputs[0];
    allowed.push_back(absl::StrCat("'", names[i], "' ", Name(info.dtype), info.shape.ToString()));
    const auto it = inputs.find(names[i]);
    if (it == inputs.end()) {
      faults.push_back(absl::StrCat("'", names[i], "' is missing"));
      continue;
    }
    surplus.erase(names[i]);
    if (!CheckParameter(graph, node, it->second).ok()) {
      faults.push_back(absl::StrCat("'", names[i], "' is ", Name(it->second.dtype()),
                                    ToString(it->second.shape())));
    }
    ordered.push_back(it->second);
  }
  for (const auto& [name, tensor] : surplus) {
    faults.push_back(absl::StrCat("'", name, "' is not known"));
  }
  if (!faults.empty()) {
    return Invalid("inputs: ", absl::StrJoin(faults, ", "), "; the model's inputs are: ",
                   allowed.empty() ? "none" : absl::StrJoin(allowed, ", "));
  }
  return ordered;
}

absl::StatusOr<TensorMap> RunModel(const Model& model, const ExecutionContext& context,
                                   const TensorMap& inputs) {
  BW_ASSIGN_OR_RETURN(const std::vector<Tensor> ordered, OrderInputs(model.graph(), inputs));
  std::vector<Tensor> outputs;
  BW_RETURN_IF_ERROR(model.Run(context, ordered, outputs));
  const std::vector<std::string> names = UniquePortNames(model.graph(), model.graph().results);
  TensorMap result;
  for (size_t i = 0; i < names.size(); ++i) {
    result[names[i]] = outputs[i];
  }
  return result;
}

namespace {

double Difference(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) {
    return 0;
  }
  const double difference = std::abs(a - b);
  return std::isfinite(difference) ? difference : std::numeric_limits<double>::infinity();
}

// NaN agrees with NaN, and an infinity with the same infinity.
//
// Relative means relative to the largest expected value of the output, not to each element:
// elements near 0 have no more correct digits than the sums that they came from.
absl::StatusOr<Agreement> Compare(const std::string& name, const Tensor& ours,
                                  const Tensor& expected) {
  if (ours.dtype() != expected.dtype() || ours.shape() != expected.shape()) {
    return Invalid("output '", name, "' is ", Name(ours.dtype()), ToString(ours.shape()),
                   "; expected is ", Name(expected.dtype()), ToString(expected.shape()));
  }
  BW_ASSIGN_OR_RETURN(const Tensor a, Convert(ours, DType::kF64));
  BW_ASSIGN_OR_RETURN(const Tensor b, Convert(expected, DType::kF64));
  Agreement agreement;
  agreement.output = name;
  double largest = 0;
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    const double want = b.data<double>()[i];
    agreement.max_absolute =
        std::max(agreement.max_absolute, Difference(a.data<double>()[i], want));
    largest = std::max(largest, std::isfinite(want) ? std::abs(want) : 0);
  }
  agreement.max_relative =
      agreement.max_absolute == 0 ? 0 : agreement.max_absolute / std::max(largest, 1e-30);
  agreement.agrees =
      IsFloat(ours.dtype())
          ? agreement.max_relative <= kReplayTolerance
          : std::memcmp(ours.bytes(), expected.bytes(), static_cast<size_t>(ours.num_bytes())) == 0;
  return agreement;
}

}  // namespace

absl::StatusOr<std::vector<Agreement>> Replay(const Model& model, const TensorMap& inputs,
                                              const TensorMap& expected) {
  BW_ASSIGN_OR_RETURN(const TensorMap outputs, RunModel(model, ExecutionContext(), inputs));
  std::vector<Agreement> agreements;
  for (const auto& [name, tensor] : expected) {
    const auto ours = outputs.find(name);
    if (ours == outputs.end()) {
      std::vector<std::string> names;
      for (const auto& [known, value] : outputs) {
        names.push_back(absl::StrCat("'", known, "'"));
      }
      return Invalid("the model has no output '", name, "'; it has ", absl::StrJoin(names, ", "));
    }
    BW_ASSIGN_OR_RETURN(Agreement agreement, Compare(name, ours->second, tensor));
    agreements.push_back(std::move(agreement));
  }
  return agreements;
}

std::string ToString(const Agreement& agreement) {
  return absl::StrFormat("%s: largest difference %.2g, relative %.2g: %s",
                         Printable(agreement.output), agreement.max_absolute,
                         agreement.max_relative, agreement.agrees ? "agrees" : "DIFFERS");
}

// Measures how long a graph takes for made-up inputs (BenchModel): one run first, which is not
// counted, then as many as fit in the given seconds; the least, median and largest time are
// reported (BenchText, BenchJson).
//
// InputShape puts the batch in the axis of rows and the length in all other open axes. MakeInput
// fills lengths with the length, masks so that all is valid, floats with random numbers from a
// fixed seed, and other integers with 0, which every table has.

namespace {

bool OpensFirstAxis(const Graph& graph, int parameter) {
  const PartialShape& shape = graph.node(parameter).outputs[0].shape;
  return shape.rank() > 0 && shape.dim(0) == PartialShape::kDynamic;
}

// The axis of an input that counts rows.
int RowAxis(const Graph& graph, int parameter) {
  const bool others_open = std::any_of(graph.parameters.begin(), graph.parameters.end(),
                                       [&](int other) { return OpensFirstAxis(graph, other); });
  return OpensFirstAxis(graph, parameter) || !others_open ? 0 : 1;
}

absl::StatusOr<Shape> InputShape(const Graph& graph, int parameter, const BenchCase& inputs) {
  const ValueInfo& info = graph.node(parameter).outputs[0];
  if (!info.shape.has_rank()) {
    return Invalid("input '", PortName(graph, parameter),
                   "' has no declared rank, so none can be made up for it");
  }
  Shape shape = info.shape.dims();
  const auto row_axis = static_cast<size_t>(RowAxis(graph, parameter));
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == PartialShape::kDynamic) {
      shape[axis] = axis == row_axis ? inputs.batch : inputs.length;
    }
  }
  const absl::StatusOr<int64_t> count = CheckedNumElements(shape);
  // Values are drawn as f32 and then converted.
  if (!count.ok() || *count > kMaxTensorBytes / 8) {
    return Invalid("input '", PortName(graph, parameter), "' of ", ToString(shape),
                   " would be too large");
  }
  return shape;
}

absl::StatusOr<Tensor> MakeInput(const Graph& graph, int parameter, const BenchCase& inputs,
                                 std::mt19937& random) {
  const DType dtype = graph.node(parameter).outputs[0].dtype;
  BW_ASSIGN_OR_RETURN(const Shape shape, InputShape(graph, parameter, inputs));
  Tensor values = Tensor::Zeros(DType::kF32, shape);
  float* const begin = values.mutable_data<float>();
  float* const end = begin + values.num_elements();
  const LengthKind kind = GuessLengthKind(graph, parameter);
  if (kind == LengthKind::kLengths) {
    std::fill(begin, end, static_cast<float>(inputs.length));
  } else if (kind == LengthKind::kMask || dtype == DType::kBool) {
    std::fill(begin, end, kind == LengthKind::kAdditiveMask ? 0.0f : 1.0f);
  } else if (kind == LengthKind::kNone && IsFloat(dtype)) {
    std::uniform_real_distribution<float> value(-1, 1);
    std::generate(begin, end, [&] { return value(random); });
  }
  return Convert(values, dtype);
}

}  // namespace

absl::StatusOr<BenchResult> BenchModel(const Model& model, const BenchCase& inputs,
                                       double seconds) {
  std::mt19937 random(1);
  std::vector<Tensor> tensors;
  for (const int parameter : model.graph().parameters) {
    BW_ASSIGN_OR_RETURN(Tensor tensor, MakeInput(model.graph(), parameter, inputs, random));
    tensors.push_back(std::move(tensor));
  }
  BW_ASSIGN_OR_RETURN(BenchResult result, BenchModel(model, tensors, inputs.threads, seconds));
  result.inputs = inputs;
  return result;
}

absl::StatusOr<BenchResult> BenchModel(const Model& model, const std::vector<Tensor>& inputs,
                                       int threads, double seconds) {
  ExecutionContext context;
  context.num_threads = threads;
  std::vector<Tensor> outputs;
  Model::Workspace workspace;
  BW_RETURN_IF_ERROR(model.Run(context, inputs, workspace, outputs));
  std::vector<double> times;
  absl::Status status;
  Team::Within(threads, [&] {
    const absl::Time end = absl::Now() + absl::Seconds(seconds);
    do {
      const absl::Time started = absl::Now();
      status = model.Run(context, inputs, workspace, outputs);
      times.push_back(absl::ToDoubleMilliseconds(absl::Now() - started));
    } while (status.ok() && absl::Now() < end);
  });
  BW_RETURN_IF_ERROR(status);
  std::sort(times.begin(), times.end());
  return BenchResult{{0, 0, threads},
                     static_cast<int64_t>(times.size()),
                     times.front(),
                     times[times.size() / 2],
                     times.back()};
}

std::string BenchText(const std::vector<BenchResult>& results) {
  std::string text = absl::StrFormat("%6s %7s %8s %8s %10s %10s %10s\n", "batch", "length",
                                     "threads", "runs", "min ms", "median ms", "max ms");
  for (const BenchResult& result : results) {
    absl::StrAppendFormat(&text, "%6d %7d %8d %8d %10.3f %10.3f %10.3f\n", result.inputs.batch,
                          result.inputs.length, result.inputs.threads, result.runs, result.min_ms,
                          result.median_ms, result.max_ms);
  }
  return text;
}

std::string BenchJson(const std::vector<BenchResult>& results) {
  JsonWriter json(JsonWriter::Style::kIndented);
  json.BeginArray();
  for (const BenchResult& result : results) {
    json.BeginObject();
    json.Key("batch").Int(result.inputs.batch);
    json.Key("length").Int(result.inputs.length);
    json.Key("threads").Int(result.inputs.threads);
    json.Key("runs").Int(result.runs);
    json.Key("min_ms").Double(result.min_ms);
    json.Key("median_ms").Double(result.median_ms);
    json.Key("max_ms").Double(result.max_ms);
    json.EndObject();
  }
  json.EndArray();
  return absl::StrCat(json.text(), "\n");
}

}  // namespace beamwright::ops
