// Small parts of reading ONNX: names for error messages (Quote, TypeName, Describe), domains,
// element types (OnnxType), and the declared type and shape of a value (OnnxValueInfo).
//
// Names are shortened, since files may contain long ones. Operators that LowerOnnxSequences wrote
// are called what the file calls them. Symbolic extents are unknown ones.
#include "ops/import/onnx_text.h"

#include "ops/base/status.h"
#include "ops/import/ir_text.h"
#include "ops/import/onnx_sequences.h"

namespace beamwright::ops {

static_assert(kMaxOnnxRank == kMaxIrRank);

std::string Quote(absl::string_view name) {
  constexpr size_t kMostShown = 120;
  return name.size() <= kMostShown ? absl::StrCat("'", name, "'")
                                   : absl::StrCat("'", name.substr(0, kMostShown), "...'");
}

namespace {

// What the file calls an operator that LowerOnnxSequences wrote.
absl::string_view SequenceTypeName(absl::string_view type) {
  return type == "JoinList" || type == "JoinStacked" ? "ConcatFromSequence"
         : type == "LengthOf"                        ? "SequenceLength"
         : type == "PartsOf"                         ? "SplitToSequence"
                                                     : "SequenceAt";
}

}  // namespace

std::string TypeName(const onnx::NodeProto& node) {
  const absl::string_view domain = Domain(node.domain());
  if (domain == kOnnxSequenceDomain) {
    return std::string(SequenceTypeName(node.op_type()));
  }
  const std::string name = absl::StrCat(domain, domain.empty() ? "" : ".", node.op_type());
  return name.size() <= 120 ? name : absl::StrCat(absl::string_view(name).substr(0, 120), "...");
}

std::string Describe(const onnx::NodeProto& node, int index) {
  return absl::StrCat("node ", index, " ",
                      node.name().empty() ? "" : absl::StrCat(Quote(node.name()), " "), "(",
                      TypeName(node), ")");
}

absl::string_view Domain(absl::string_view domain) {
  return domain == "ai.onnx" ? absl::string_view() : domain;
}

absl::StatusOr<DType> OnnxType(int64_t data_type) {
  switch (data_type) {
    case onnx::TensorProto::FLOAT:
      return DType::kF32;
    case onnx::TensorProto::FLOAT16:
      return DType::kF16;
    case onnx::TensorProto::BFLOAT16:
      return DType::kBF16;
    case onnx::TensorProto::DOUBLE:
      return DType::kF64;
    case onnx::TensorProto::INT64:
      return DType::kI64;
    case onnx::TensorProto::INT32:
      return DType::kI32;
    case onnx::TensorProto::INT16:
      return DType::kI16;
    case onnx::TensorProto::INT8:
      return DType::kI8;
    case onnx::TensorProto::UINT64:
      return DType::kU64;
    case onnx::TensorProto::UINT32:
      return DType::kU32;
    case onnx::TensorProto::UINT16:
      return DType::kU16;
    case onnx::TensorProto::UINT8:
      return DType::kU8;
    case onnx::TensorProto::BOOL:
      return DType::kBool;
    case onnx::TensorProto::UNDEFINED:
      return Invalid("the element type is not given");
    default:
      break;
  }
  const bool named = data_type == onnx::TensorProto::STRING;
  return absl::UnimplementedError(absl::StrCat(
      "element type ", data_type, named ? " (text)" : "",
      " is not supported; floats of 16, 32 and 64 bits, integers of 8 to 64 and booleans are"));
}

absl::StatusOr<ValueInfo> OnnxValueInfo(const onnx::TypeProto& type) {
  ValueInfo info;
  if (type.value_case() == onnx::TypeProto::VALUE_NOT_SET) {
    return info;
  }
  if (type.value_case() != onnx::TypeProto::kTensorType) {
    return absl::UnimplementedError(
        "is not a tensor; sequences, maps and optional values are not "
        "supported");
  }
  const onnx::TypeProto::Tensor& tensor = type.tensor_type();
  if (tensor.elem_type() != onnx::TensorProto::UNDEFINED) {
    BW_ASSIGN_OR_RETURN(info.dtype, OnnxType(tensor.elem_type()));
  }
  if (tensor.has_shape()) {
    Shape dims;
    if (tensor.shape().dim_size() > kMaxOnnxRank) {
      return Invalid("has rank ", tensor.shape().dim_size(), "; at most ", kMaxOnnxRank,
                     " is allowed");
    }
    for (const onnx::TensorShapeProto::Dimension& dim : tensor.shape().dim()) {
      // Exporters write -1 for what they do not know; all else below zero is a mistake.
      if (dim.has_dim_value() && dim.dim_value() < PartialShape::kDynamic) {
        return Invalid("extent ", dim.dim_value(), " is negative");
      }
      dims.push_back(dim.has_dim_value() ? dim.dim_value() : PartialShape::kDynamic);
    }
    BW_ASSIGN_OR_RETURN(info.shape, MakeShape(std::move(dims)));
  }
  return info;
}

}  // namespace beamwright::ops
