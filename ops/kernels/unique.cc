// Unique of ONNX and OpenVINO: the different elements of a tensor, or the different slices across
// an axis, with where each occurs first, which one each unit is, and how often each occurs.
//
// KindsOf sorts the numbers of the units by their contents, so that equal ones are neighbours; one
// pass then gives the kinds. If the order of first occurrence is wanted, the kinds are renumbered
// by it.
//
// The number of kinds depends on the elements: if the data are known at load, the shapes are known
// too; else they are open, and all rows are computed together (ExtentRows).
//
// Example: the elements 5 2 5 7 2, sorted. The kinds are 2, 5, 7; first occurrences 1, 0, 3; the
// kind of each element 1 0 1 2 0; numbers 2, 2, 1. In the order of occurrence the kinds are 5, 2,
// 7.
#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "ops/kernels/inputs.h"
#include "ops/kernels/selection.h"
#include "ops/kernels/types.h"

namespace beamwright::ops {
namespace {

// Slices of data across an axis, or its elements: what is compared.
struct Units {
  const Tensor& data;
  int64_t count = 0;  // units
  int64_t outer = 1;  // extents before the axis, multiplied
  int64_t inner = 1;  // and behind it

  Units(const Tensor& tensor, std::optional<int> axis) : data(tensor) {
    count = axis.has_value() ? tensor.dim(*axis) : tensor.num_elements();
    for (int i = 0; axis.has_value() && i < tensor.rank(); ++i) {
      (i < *axis ? outer : inner) *= i == *axis ? 1 : tensor.dim(i);
    }
  }

  // Negative, 0 or positive: a is before, equal to or behind b.
  template <typename T>
  int Compare(int64_t a, int64_t b) const {
    const T* const elements = data.data<T>();
    for (int64_t o = 0; o < outer; ++o) {
      const T* const x = elements + (o * count + a) * inner;
      const T* const y = elements + (o * count + b) * inner;
      for (int64_t i = 0; i < inner; ++i) {
        if (Above(y[i], x[i])) {
          return -1;
        }
        if (Above(x[i], y[i])) {
          return 1;
        }
      }
    }
    return 0;
  }
};

// For each kind of unit, in the order that is asked for, where it occurs first and how often; for
// each unit its kind.
struct Kinds {
  std::vector<int64_t> first;
  std::vector<int64_t> number;
  std::vector<int64_t> kind;  // one for each unit
};

template <typename T>
Kinds KindsOf(const Units& units, bool sorted) {
  Kinds kinds;
  kinds.kind.resize(static_cast<size_t>(units.count));
  std::vector<int64_t> order(kinds.kind.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const int compared = units.Compare<T>(a, b);
    return compared < 0 || (compared == 0 && a < b);
  });
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || units.Compare<T>(order[i - 1], order[i]) != 0) {
      kinds.first.push_back(order[i]);
      kinds.number.push_back(0);
    }
    ++kinds.number.back();
    kinds.kind[static_cast<size_t>(order[i])] = static_cast<int64_t>(kinds.first.size()) - 1;
  }
  if (sorted) {
    return kinds;
  }
  std::vector<int64_t> by_occurrence(kinds.first.size());
  std::iota(by_occurrence.begin(), by_occurrence.end(), 0);
  std::sort(by_occurrence.begin(), by_occurrence.end(), [&](int64_t a, int64_t b) {
    return kinds.first[static_cast<size_t>(a)] < kinds.first[static_cast<size_t>(b)];
  });
  Kinds result = kinds;
  std::vector<int64_t> place(by_occurrence.size());
  for (size_t i = 0; i < by_occurrence.size(); ++i) {
    const auto old = static_cast<size_t>(by_occurrence[i]);
    result.first[i] = kinds.first[old];
    result.number[i] = kinds.number[old];
    place[old] = static_cast<int64_t>(i);
  }
  for (int64_t& kind : result.kind) {
    kind = place[static_cast<size_t>(kind)];
  }
  return result;
}

struct UniqueOp {
  struct Options {
    bool sorted = true;
    DType index_type = DType::kI64;
    DType count_type = DType::kI64;
  };

  static absl::StatusOr<DType> ParseType(const Node& node, const char* attribute) {
    BW_ASSIGN_OR_RETURN(const std::string name, node.attributes.String(attribute, "i64"));
    if (name != "i64" && name != "i32") {
      return Invalid("attribute ", attribute, ": '", name, "' must be i32 or i64");
    }
    return name == "i32" ? DType::kI32 : DType::kI64;
  }

  static absl::StatusOr<Options> Parse(const Node& node) {
    Options options;
    BW_ASSIGN_OR_RETURN(options.sorted, node.attributes.Bool("sorted", true));
    BW_ASSIGN_OR_RETURN(options.index_type, ParseType(node, "index_element_type"));
    BW_ASSIGN_OR_RETURN(options.count_type, ParseType(node, "count_element_type"));
    return options;
  }

  // Nothing: of all elements, or not known yet.
  static absl::StatusOr<std::optional<int>> AxisOf(absl::Span<const InputInfo> inputs) {
    if (!Present(inputs, 1)) {
      return std::optional<int>();
    }
    BW_ASSIGN_OR_RETURN(const std::optional<int64_t> axis, ReadInt(inputs[1], "axis"));
    if (!axis.has_value() || !inputs[0].shape.has_rank()) {
      return std::optional<int>();
    }
    BW_ASSIGN_OR_RETURN(const int normalised, NormalizeAxis(*axis, inputs[0].shape.rank()));
    return std::optional<int>(normalised);
  }

  static Kinds Find(const Options& options, const Tensor& data, std::optional<int> axis) {
    Kinds kinds;
    VisitDType(data.dtype(), [&](auto type) {
      kinds = KindsOf<decltype(type)>(Units(data, axis), options.sorted);
    });
    return kinds;
  }

  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 1, 2, outputs, 4));
    BW_RETURN_IF_ERROR(ExpectType(inputs[0], "data", kNumericAndBoolTypes));
    BW_ASSIGN_OR_RETURN(const std::optional<int> axis, AxisOf(inputs));
    const PartialShape& shape = inputs[0].shape;
    int64_t found = PartialShape::kDynamic;
    int64_t units = PartialShape::kDynamic;
    if (inputs[0].value != nullptr && axis.has_value() == Present(inputs, 1)) {
      found = static_cast<int64_t>(Find(options, *inputs[0].value, axis).first.size());
    }
    if (axis.has_value()) {
      units = shape.dim(*axis);
    } else if (!Present(inputs, 1) && shape.has_rank()) {
      units = PartialProduct(shape.dims());
    }
    outputs[0].dtype = inputs[0].dtype;
    outputs[0].shape = PartialShape({found});
    if (axis.has_value()) {
      Shape dims = shape.dims();
      dims[static_cast<size_t>(*axis)] = found;
      outputs[0].shape = PartialShape(std::move(dims));
    } else if (Present(inputs, 1)) {
      outputs[0].shape = shape.has_rank() ? DynamicShape(shape.rank()) : PartialShape();
    }
    const DType types[] = {options.index_type, options.index_type, options.count_type};
    const int64_t lengths[] = {found, units, found};
    for (size_t i = 0; i < 3; ++i) {
      outputs[i + 1].dtype = types[i];
      outputs[i + 1].shape = PartialShape({lengths[i]});
    }
    return absl::OkStatus();
  }

  static void Fill(const std::vector<int64_t>& numbers, DType type, Tensor& output) {
    for (size_t i = 0; i < numbers.size(); ++i) {
      SetIndex(output, type, static_cast<int64_t>(i), numbers[i]);
    }
  }

  static absl::Status Compute(const Options& options, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const Tensor& data = *inputs[0];
    BW_ASSIGN_OR_RETURN(const std::optional<int> axis, AxisOf(DescribeInputs(inputs)));
    const Units units(data, axis);
    const Kinds kinds = Find(options, data, axis);
    const auto found = static_cast<int64_t>(kinds.first.size());
    VisitWord(data.dtype(), [&](auto type) {
      using T = decltype(type);
      for (int64_t o = 0; o < units.outer; ++o) {
        for (int64_t i = 0; i < found; ++i) {
          const T* const from =
              Words<T>(data) +
              (o * units.count + kinds.first[static_cast<size_t>(i)]) * units.inner;
          std::copy(from, from + units.inner,
                    MutableWords<T>(outputs[0]) + (o * found + i) * units.inner);
        }
      }
    });
    Fill(kinds.first, options.index_type, outputs[1]);
    Fill(kinds.kind, options.index_type, outputs[2]);
    Fill(kinds.number, options.count_type, outputs[3]);
    return absl::OkStatus();
  }
};

}  // namespace

// How many there are follows from all rows together.
constinit const OperatorCode kUnique = CodeOf<UniqueOp>(&ExtentRows);

}  // namespace beamwright::ops
