// What the builders of Marian's architectures share: the arrays of a file, each of which a graph
// must read, and nodes that read them. Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_MARIAN_NODES_H_
#define BEAMWRIGHT_OPS_IMPORT_MARIAN_NODES_H_

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ops/base/status.h"
#include "ops/graph/graph.h"
#include "ops/graph/rewrite.h"
#include "ops/import/marian_file.h"

namespace beamwright::ops {

// The end of the names of scales of activations, which are not read.
inline constexpr absl::string_view kMarianAlpha = "_QuantMultA";

inline Attributes MarianAttribute(const char* name, AttributeValue value) {
  Attributes attributes;
  attributes.Set(name, std::move(value));
  return attributes;
}

// What both graphs read of a file: its arrays, of which each must be read by one of them.
class MarianArrays {
 public:
  MarianArrays(const MarianFile& file, const MarianOptions& options)
      : file_(file), options_(options) {}

  const MarianOptions& options() const { return options_; }
  const MarianFile& file() const { return file_; }

  // An array of this shape; -1 is any extent. The first fault is kept, and nullptr returned.
  const MarianArray* Take(const std::string& name, const Shape& shape) {
    const MarianArray* const array = file_.Find(name);
    taken_.insert(name);
    if (array == nullptr) {
      return Fault(Invalid("array '", name, "' is missing, which the options ask for"));
    }
    if (!PartialShape(shape).Accepts(array->shape)) {
      return Fault(Invalid("array '", name, "' has shape ", ToString(array->shape), "; ",
                           ToString(shape), " is what the options ask for"));
    }
    if (array->type == MarianArray::Type::kI8) {
      return Fault(Invalid("array '", name, "' has type int8; float32 or intgemm8 is expected"));
    }
    return array;
  }
  template <typename T>
  T Value(const std::string& name, absl::StatusOr<T> value) {
    if (!value.ok()) {
      Fault(Annotate(value.status(), absl::StrCat("array '", name, "'")));
      return T();
    }
    return *std::move(value);
  }

  // The first fault, or that the file holds what no graph reads.
  absl::Status Finish() const {
    BW_RETURN_IF_ERROR(status_);
    std::vector<std::string> unread;
    for (const auto& [name, array] : file_.arrays()) {
      const bool is_empty =
          std::find(array.shape.begin(), array.shape.end(), 0) != array.shape.end();
      if (!taken_.contains(name) && !is_empty && !absl::EndsWith(name, kMarianAlpha) &&
          !absl::StartsWith(name, "special:")) {
        unread.push_back(name);
      }
    }
    return unread.empty()
               ? absl::OkStatus()
               : absl::UnimplementedError(absl::StrCat(
                     "array '", unread[0], "'",
                     unread.size() > 1 ? absl::StrCat(" and ", unread.size() - 1, " others") : "",
                     ": no layer that is implemented reads it"));
  }

 private:
  const MarianArray* Fault(absl::Status status) {
    status_.Update(std::move(status));
    return nullptr;
  }

  const MarianFile& file_;
  const MarianOptions& options_;
  std::set<std::string> taken_;
  absl::Status status_;
};

// Nodes of one of the graphs.
class MarianNodes {
 public:
  MarianNodes(MarianArrays& arrays, Graph& graph)
      : arrays_(arrays), options_(arrays.options()), graph_(graph) {}

 protected:
  // Nodes that bear the name of what they are part of.
  NodeAppender At(const std::string& name) { return NodeAppender(graph_, name); }

  ValueId Parameter(const std::string& name, DType dtype, Shape shape) {
    const ValueId value = At(name).Add("Parameter", {});
    ValueInfo& info = graph_.nodes.back().outputs[0];
    info.dtype = dtype;
    info.shape = PartialShape(std::move(shape));
    info.names = {name};
    graph_.parameters.push_back(value.node);
    return value;
  }
  void Result(const std::string& name, ValueId value) {
    At(name).Add("Result", {value}, {}, 0);
    graph_.results.push_back(static_cast<int>(graph_.nodes.size()) - 1);
    graph_.node(value.node).outputs[static_cast<size_t>(value.output)].names = {name};
  }

  ValueId Number(NodeAppender& add, float value) { return add.Constant(Tensor::Scalar(value)); }

  // A constant of an array [1, extent], as [extent].
  ValueId Vector(const std::string& name, int64_t extent) {
    const MarianArray* const array = arrays_.Take(name, {1, extent});
    return array == nullptr ? NoConstant()
                            : Constant(name, arrays_.file().Floats(*array, {extent}));
  }
  // x * W of a matrix [depth, columns].
  ValueId Product(ValueId x, const std::string& name, int64_t depth, int64_t columns) {
    const MarianArray* const array = arrays_.Take(name, {depth, columns});
    if (array == nullptr) {
      return x;
    }
    const bool is_transposed = array->type == MarianArray::Type::kIntgemm8;
    const ValueId w =
        Constant(name, arrays_.file().Floats(
                           *array, is_transposed ? Shape{columns, depth} : Shape{depth, columns}));
    return At(name).Add("MatMul", {x, w}, MarianAttribute("transpose_b", is_transposed));
  }
  ValueId Affine(ValueId x, const std::string& w, const std::string& b, int64_t depth,
                 int64_t columns) {
    const ValueId product = Product(x, w, depth, columns);
    return At(b).Add("Add", {product, Vector(b, columns)});
  }

  // scale * E[ids], times `gate` where that is present. Tables of 8 bits stay such.
  ValueId Embedding(const std::string& table, ValueId ids, ValueId gate, float scale) {
    const MarianArray* const array = arrays_.Take(table, {-1, options_.width});
    if (array == nullptr) {
      return NoConstant();
    }
    NodeAppender add = At(table);
    const bool is_quantised = array->type == MarianArray::Type::kIntgemm8;
    const ValueId rows =
        Constant(table, is_quantised ? arrays_.file().Integers(*array, array->shape)
                                     : arrays_.file().Floats(*array, array->shape));
    ValueId x = add.Add("Gather", {rows, ids, add.Int(0)});
    if (is_quantised) {
      scale /= arrays_.Value(table, arrays_.file().Multiplier(*array));
      x = add.Add("Convert", {x}, MarianAttribute("destination_type", std::string("f32")));
    }
    ValueId factor = Number(add, scale);
    if (gate.present()) {
      factor = add.Add("Multiply", {gate, factor});
    }
    return add.Add("Multiply", {x, factor});
  }

  ValueId Constant(const std::string& name, absl::StatusOr<Tensor> tensor) {
    Tensor value = arrays_.Value(name, std::move(tensor));
    return value.has_value() ? At(name).Constant(std::move(value)) : NoConstant();
  }
  // In the place of one that is missing: the graph is thrown away.
  ValueId NoConstant() { return At("missing").Int(0); }

  MarianArrays& arrays_;
  const MarianOptions& options_;
  Graph& graph_;
};

// Marian's older architecture, which Nematus had first: a bidirectional GRU encoder, and a decoder
// whose step is a GRU cell, attention by a small network (Bahdanau et al. 2015), and a second GRU
// cell.

// encoder: source i64 [rows, length] -> memory f32 [rows, length, 2 * state], start f32 [rows,
// state]. decoder: as MarianPart::kDecoder, with the state cell1 f32 [rows, state], which begins
// with `start`. Faults of arrays are those of `arrays`.
absl::Status BuildMarianS2s(MarianArrays& arrays, Graph& encoder, Graph& decoder);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_MARIAN_NODES_H_
