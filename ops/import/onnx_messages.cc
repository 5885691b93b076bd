// Reads parts of ONNX's protobuf messages: types and shapes, names for messages, and tensors, whose
// elements are in the message, in the file or in another file. Nothing in a file is trusted: every
// size is checked before memory is taken.
#include "ops/import/onnx_messages.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "ops/base/status.h"
#include "ops/import/graph_file.h"
#include "ops/import/ir_net.h"
#include "ops/import/onnx_operators.h"
#include "ops/import/onnx_outline.h"

namespace beamwright::ops {

// Small parts of reading ONNX: names for error messages (Quote, TypeName, Describe), domains,
// element types (OnnxType), and the declared type and shape of a value (OnnxValueInfo).
//
// Names are shortened, since files may contain long ones. Operators that LowerOnnxSequences wrote
// are called what the file calls them. Symbolic extents are unknown ones.

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

// Reads tensors of ONNX files. Elements are in one of four places: raw_data, a typed field
// (float_data, int32_data and so on; int32_data also holds narrower types), another file (external
// data), or, for large tensors of the model file itself, at a place that the outline of the file
// noted instead of copying them (ElementsInFile).
//
// Type and shape are read and checked first (ReadHead), and the number of bytes must fit them
// before memory is taken. Elements in files are read when they are needed (ReadTensor makes a
// deferred tensor).
//
// External data: the location must be a relative path without "..", and all tensors together may
// take at most kMaxExternalGrowth times the size of the files: many tensors of a small file could
// name the same bytes again and again.

namespace {

// Exporters do not share bytes between tensors; a little room for those that do.
constexpr int64_t kMaxExternalGrowth = 4;

// Type and shape; all extents must be known. Elements are made later, after a check that the
// message has them.
absl::StatusOr<ValueInfo> ReadHead(const onnx::TensorProto& message) {
  ValueInfo head;
  BW_ASSIGN_OR_RETURN(head.dtype, OnnxType(message.data_type()));
  if (message.dims_size() > kMaxOnnxRank) {
    return Invalid("has rank ", message.dims_size(), "; at most ", kMaxOnnxRank, " is allowed");
  }
  if (message.has_segment()) {
    return absl::UnimplementedError("a tensor in segments is not supported");
  }
  Shape shape(message.dims().begin(), message.dims().end());
  BW_RETURN_IF_ERROR(CheckedNumElements(shape).status());
  head.shape = PartialShape(std::move(shape));
  return head;
}

// Any byte may stand in a file; a bool is 0 or 1.
void Normalise(Tensor& tensor) {
  if (tensor.dtype() == DType::kBool) {
    for (int64_t i = 0; i < tensor.num_bytes(); ++i) {
      tensor.mutable_bytes()[i] = std::byte{tensor.bytes()[i] != std::byte{0}};
    }
  }
}

absl::Status CheckSize(int64_t bytes, DType dtype, const Shape& shape) {
  const int64_t needed = NumElements(shape) * SizeOf(dtype);
  return bytes == needed ? absl::OkStatus()
                         : Invalid("has ", bytes, " bytes of elements; ", Name(dtype),
                                   ToString(shape), " takes ", needed);
}

absl::StatusOr<Tensor> FromBytes(absl::string_view bytes, DType dtype, const Shape& shape) {
  BW_RETURN_IF_ERROR(CheckSize(static_cast<int64_t>(bytes.size()), dtype, shape));
  Tensor tensor(dtype, shape);
  if (!bytes.empty()) {
    std::memcpy(tensor.mutable_bytes(), bytes.data(), bytes.size());
  }
  Normalise(tensor);
  return tensor;
}

template <typename To, typename Field>
absl::StatusOr<Tensor> FromField(const Field& field, DType dtype, const Shape& shape) {
  if (field.size() != NumElements(shape)) {
    return Invalid("has ", field.size(), " elements; its shape is ", ToString(shape));
  }
  Tensor tensor(dtype, shape);
  auto* const out = reinterpret_cast<To*>(tensor.mutable_bytes());
  for (int i = 0; i < field.size(); ++i) {
    out[i] = static_cast<To>(field[i]);
  }
  return tensor;
}

// Reads int32_data of a narrower type. A number outside of the type is a mistake of the program
// that wrote the file, such as a zero point that was not clamped; it would become another number.
template <typename To>
absl::StatusOr<Tensor> FromNarrowed(const onnx::TensorProto& message, DType dtype,
                                    const Shape& shape) {
  constexpr int32_t kLeast = std::numeric_limits<To>::min();
  constexpr int32_t kMost = std::numeric_limits<To>::max();
  for (int i = 0; i < message.int32_data_size(); ++i) {
    const int32_t value = message.int32_data(i);
    if (value < kLeast || value > kMost) {
      return Invalid("element ", i, " is ", value, ", which ", Name(dtype),
                     " does not hold; it has ", kLeast, " to ", kMost);
    }
  }
  return FromField<To>(message.int32_data(), dtype, shape);
}

// The field follows from the type as onnx.proto says; 16-bit floats are bit patterns.
absl::StatusOr<Tensor> FromFields(const onnx::TensorProto& message, DType dtype,
                                  const Shape& shape) {
  switch (dtype) {
    case DType::kF32:
      return FromField<float>(message.float_data(), dtype, shape);
    case DType::kF64:
      return FromField<double>(message.double_data(), dtype, shape);
    case DType::kI64:
      return FromField<int64_t>(message.int64_data(), dtype, shape);
    case DType::kU64:
      return FromField<uint64_t>(message.uint64_data(), dtype, shape);
    case DType::kU32:
      return FromField<uint32_t>(message.uint64_data(), dtype, shape);
    case DType::kI32:
      return FromField<int32_t>(message.int32_data(), dtype, shape);
    case DType::kI16:
      return FromNarrowed<int16_t>(message, dtype, shape);
    case DType::kU16:
      return FromNarrowed<uint16_t>(message, dtype, shape);
    case DType::kI8:
      return FromNarrowed<int8_t>(message, dtype, shape);
    case DType::kU8:
      return FromNarrowed<uint8_t>(message, dtype, shape);
    case DType::kF16:
    case DType::kBF16:
      return FromField<uint16_t>(message.int32_data(), dtype, shape);
    case DType::kBool:
      return FromField<bool>(message.int32_data(), dtype, shape);
    default:
      return FromField<uint8_t>(message.int32_data(), dtype, shape);
  }
}

absl::Status CheckLocation(absl::string_view location) {
  const std::vector<absl::string_view> parts = absl::StrSplit(location, '/');
  const bool up = std::find(parts.begin(), parts.end(), "..") != parts.end();
  if (location.empty() || location.front() == '/' || up ||
      location.find('\\') != absl::string_view::npos ||
      location.find('\0') != absl::string_view::npos) {
    return Invalid("external data in ", Quote(location),
                   "; its location must be a relative path without '..'");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Tensor> ReadInlineTensor(const onnx::TensorProto& message) {
  BW_ASSIGN_OR_RETURN(const ValueInfo head, ReadHead(message));
  return message.has_raw_data() ? FromBytes(message.raw_data(), head.dtype, head.shape.dims())
                                : FromFields(message, head.dtype, head.shape.dims());
}

namespace {

absl::StatusOr<Tensor> ReadElements(const InputFilePtr& file, const onnx::TensorProto& message,
                                    const OnnxElements& elements) {
  BW_ASSIGN_OR_RETURN(const ValueInfo head, ReadHead(message));
  const Shape& shape = head.shape.dims();
  if (elements.is_float_data && head.dtype != DType::kF32) {
    return Invalid("has its elements in float_data; ", Name(head.dtype), " does not stand there");
  }
  BW_RETURN_IF_ERROR(CheckSize(elements.size, head.dtype, shape));
  if (elements.offset < 0 || elements.size < 0 || elements.size > file->size() ||
      elements.offset > file->size() - elements.size) {
    return Invalid("its elements lie outside the file");
  }
  return ReadTensor(file, elements.offset, head.dtype, shape);
}

}  // namespace

absl::StatusOr<Tensor> OnnxTensors::Read(const onnx::TensorProto& message) {
  Tensor& known = tensors_[&message];
  if (!known.has_value()) {
    BW_ASSIGN_OR_RETURN(const std::optional<OnnxElements> in_file, ElementsInFile(message));
    if (message.data_location() == onnx::TensorProto::EXTERNAL) {
      BW_RETURN_IF_ERROR(ReadExternal(message, known));
    } else if (in_file.has_value()) {
      BW_ASSIGN_OR_RETURN(known, ReadElements(model_, message, *in_file));
    } else {
      BW_ASSIGN_OR_RETURN(known, ReadInlineTensor(message));
    }
  }
  return known;
}

absl::Status OnnxTensors::ReadExternal(const onnx::TensorProto& message, Tensor& tensor) {
  BW_ASSIGN_OR_RETURN(const ValueInfo head, ReadHead(message));
  const DType dtype = head.dtype;
  const Shape& shape = head.shape.dims();
  const int64_t needed = NumElements(shape) * SizeOf(dtype);
  std::string location;
  int64_t offset = 0;
  int64_t length = -1;
  for (const onnx::StringStringEntryProto& entry : message.external_data()) {
    if (entry.key() == "location") {
      location = entry.value();
    } else if (entry.key() == "offset" || entry.key() == "length") {
      int64_t& number = entry.key() == "offset" ? offset : length;
      if (!absl::SimpleAtoi(entry.value(), &number) || number < 0) {
        return Invalid("external data: ", entry.key(), " is ", Quote(entry.value()),
                       "; it must be a whole number, 0 or more");
      }
    } else if (entry.key() != "checksum") {
      return absl::UnimplementedError(
          absl::StrCat("external data: ", Quote(entry.key()), " is not supported"));
    }
  }
  BW_ASSIGN_OR_RETURN(const InputFilePtr file, File(location));
  const int64_t available = file->size();
  length = length < 0 ? needed : length;
  if (length != needed) {
    return Invalid("external data: length is ", length, "; ", Name(dtype), ToString(shape),
                   " takes ", needed, " bytes");
  }
  if (length > available || offset > available - length) {
    return Invalid("external data: ", length, " bytes from ", offset, " lie outside ",
                   Quote(location), " of ", available, " bytes");
  }
  if (needed > kMaxExternalGrowth * file_bytes_ - external_bytes_) {
    return Invalid("external data up to here overlaps and takes more than ", kMaxExternalGrowth,
                   " times its files of ", file_bytes_, " bytes");
  }
  external_bytes_ += needed;
  BW_ASSIGN_OR_RETURN(tensor, ReadTensor(file, offset, dtype, shape));
  return absl::OkStatus();
}

absl::StatusOr<InputFilePtr> OnnxTensors::File(const std::string& location) {
  BW_RETURN_IF_ERROR(CheckLocation(location));
  const auto known = files_.find(location);
  if (known != files_.end()) {
    return known->second;
  }
  absl::StatusOr<InputFilePtr> file = open_(location);
  if (file.ok()) {
    const absl::Status kind = CheckWeightsKind(**file);
    file = kind.ok() ? std::move(file) : Annotate(kind, Quote(location));
  }
  if (!file.ok()) {
    return Annotate(file.status(), "external data");
  }
  file_bytes_ += (*file)->size();
  return files_.emplace(location, *std::move(file)).first->second;
}

}  // namespace beamwright::ops
