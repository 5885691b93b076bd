// Reads the input tensors of a request of the Open Inference protocol. A tensor's elements come in
// one of two forms: raw_input_contents, bytes in the order of the inputs, or the typed field of its
// datatype. Both become raw bytes (or strings for BYTES), so that the rest of the server knows one
// form.
//
// ReadInput checks datatype, shape and the number of bytes against each other; the product of the
// extents is computed with a check for overflow. Narrow integers come in wider typed fields and are
// checked against their range (AppendChecked). Raw strings have their length in four bytes before
// them (SplitStrings).
#include "server/oip/input_tensor.h"

#include <cstring>
#include <limits>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"
#include "ops/tensor/tensor.h"

namespace beamwright::oip {
namespace {

constexpr Datatype kDatatypes[] = {
    {"BOOL", "boolean", 1, inference::TYPE_BOOL}, {"UINT8", "u8", 1, inference::TYPE_UINT8},
    {"UINT16", "u16", 2, inference::TYPE_UINT16}, {"UINT32", "u32", 4, inference::TYPE_UINT32},
    {"UINT64", "u64", 8, inference::TYPE_UINT64}, {"INT8", "i8", 1, inference::TYPE_INT8},
    {"INT16", "i16", 2, inference::TYPE_INT16},   {"INT32", "i32", 4, inference::TYPE_INT32},
    {"INT64", "i64", 8, inference::TYPE_INT64},   {"FP16", "f16", 2, inference::TYPE_FP16},
    {"BF16", "bf16", 2, inference::TYPE_BF16},    {"FP32", "f32", 4, inference::TYPE_FP32},
    {"FP64", "f64", 8, inference::TYPE_FP64},     {"BYTES", "", 0, inference::TYPE_STRING},
};

}  // namespace

const Datatype* FindDatatype(absl::string_view name) {
  for (const Datatype& datatype : kDatatypes) {
    if (datatype.name == name) {
      return &datatype;
    }
  }
  return nullptr;
}

const Datatype* FindDType(absl::string_view dtype) {
  for (const Datatype& datatype : kDatatypes) {
    if (datatype.dtype == dtype && !dtype.empty()) {
      return &datatype;
    }
  }
  return nullptr;
}

std::string DatatypeNames() {
  return absl::StrJoin(kDatatypes, ", ", [](std::string* out, const Datatype& datatype) {
    absl::StrAppend(out, datatype.name);
  });
}

namespace {

using Input = inference::ModelInferRequest::InferInputTensor;

constexpr size_t kLengthBytes = 4;

// Little-endian, as the protocol's clients and this server's machines are.
template <typename To, typename From>
void Append(const google::protobuf::RepeatedField<From>& elements, std::string& bytes) {
  for (const From element : elements) {
    const To value = static_cast<To>(element);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
}

template <typename To, typename From>
absl::Status AppendChecked(const google::protobuf::RepeatedField<From>& elements,
                           std::string& bytes) {
  for (const From element : elements) {
    if (static_cast<int64_t>(element) < std::numeric_limits<To>::min() ||
        static_cast<int64_t>(element) > std::numeric_limits<To>::max()) {
      return Invalid(element, " is outside the range of the datatype");
    }
  }
  Append<To>(elements, bytes);
  return absl::OkStatus();
}

// The typed field of the tensor's datatype, as raw bytes.
absl::Status AppendTyped(const inference::InferTensorContents& contents, InputTensor& tensor) {
  switch (tensor.datatype->config_type) {
    case inference::TYPE_BOOL:
      Append<uint8_t>(contents.bool_contents(), tensor.bytes);
      break;
    case inference::TYPE_INT8:
      return AppendChecked<int8_t>(contents.int_contents(), tensor.bytes);
    case inference::TYPE_INT16:
      return AppendChecked<int16_t>(contents.int_contents(), tensor.bytes);
    case inference::TYPE_INT32:
      Append<int32_t>(contents.int_contents(), tensor.bytes);
      break;
    case inference::TYPE_INT64:
      Append<int64_t>(contents.int64_contents(), tensor.bytes);
      break;
    case inference::TYPE_UINT8:
      return AppendChecked<uint8_t>(contents.uint_contents(), tensor.bytes);
    case inference::TYPE_UINT16:
      return AppendChecked<uint16_t>(contents.uint_contents(), tensor.bytes);
    case inference::TYPE_UINT32:
      Append<uint32_t>(contents.uint_contents(), tensor.bytes);
      break;
    case inference::TYPE_UINT64:
      Append<uint64_t>(contents.uint64_contents(), tensor.bytes);
      break;
    case inference::TYPE_FP32:
      Append<float>(contents.fp32_contents(), tensor.bytes);
      break;
    case inference::TYPE_FP64:
      Append<double>(contents.fp64_contents(), tensor.bytes);
      break;
    case inference::TYPE_STRING:
      tensor.strings.assign(contents.bytes_contents().begin(), contents.bytes_contents().end());
      break;
    default:
      return Invalid(tensor.datatype->name, " has no typed contents; send raw_input_contents");
  }
  return absl::OkStatus();
}

// Elements of a raw BYTES tensor: each its length in four bytes, then its bytes.
absl::Status SplitStrings(absl::string_view raw, InputTensor& tensor) {
  while (!raw.empty()) {
    uint32_t length = 0;
    if (raw.size() < kLengthBytes) {
      return Invalid("the raw elements end within the length of element ", tensor.strings.size());
    }
    std::memcpy(&length, raw.data(), kLengthBytes);
    raw.remove_prefix(kLengthBytes);
    if (length > raw.size()) {
      return Invalid("element ", tensor.strings.size(), " says that it has ", length,
                     " bytes; there are ", raw.size());
    }
    tensor.strings.push_back(raw.substr(0, length));
    raw.remove_prefix(length);
  }
  return absl::OkStatus();
}

absl::Status ReadElements(const Input& input, const std::string* raw, InputTensor& tensor) {
  if (raw != nullptr) {
    if (input.has_contents()) {
      return Invalid("has contents while the request has raw_input_contents; send either");
    }
    if (tensor.datatype->size == 0) {
      return SplitStrings(*raw, tensor);
    }
    tensor.bytes = *raw;
    return absl::OkStatus();
  }
  return AppendTyped(input.contents(), tensor);
}

absl::StatusOr<InputTensor> ReadInput(const Input& input, const std::string* raw) {
  InputTensor tensor;
  tensor.name = input.name();
  tensor.datatype = FindDatatype(input.datatype());
  if (tensor.datatype == nullptr) {
    return Invalid("datatype '", input.datatype(), "' is not one of ", DatatypeNames());
  }
  for (const auto& [name, value] : input.parameters()) {
    if (absl::StartsWith(name, "shared_memory_")) {
      return absl::UnimplementedError("shared memory is not supported; send the elements");
    }
  }
  tensor.shape.assign(input.shape().begin(), input.shape().end());
  BW_ASSIGN_OR_RETURN(const int64_t count, ops::CheckedNumElements(tensor.shape));
  if (tensor.shape.empty() || tensor.shape[0] == 0) {
    return Invalid("shape [", absl::StrJoin(tensor.shape, ","), "] holds no source");
  }
  BW_RETURN_IF_ERROR(ReadElements(input, raw, tensor));
  const int64_t size = tensor.datatype->size;
  const int64_t got = size == 0 ? static_cast<int64_t>(tensor.strings.size())
                                : static_cast<int64_t>(tensor.bytes.size());
  const int64_t wanted = size == 0 ? count : count * size;
  if (got != wanted) {
    return Invalid("shape [", absl::StrJoin(tensor.shape, ","), "] of ", tensor.datatype->name,
                   " takes ", wanted, size == 0 ? " elements" : " bytes", "; got ", got);
  }
  return tensor;
}

}  // namespace

int64_t InputTensor::row_size() const {
  int64_t size = 1;
  for (size_t axis = 1; axis < shape.size(); ++axis) {
    size *= shape[axis];
  }
  return size;
}

absl::StatusOr<std::vector<InputTensor>> ReadInputs(const inference::ModelInferRequest& request) {
  const bool raw = request.raw_input_contents_size() > 0;
  if (raw && request.raw_input_contents_size() != request.inputs_size()) {
    return status::InvalidField("raw_input_contents", "has ", request.raw_input_contents_size(),
                                " entries for ", request.inputs_size(), " inputs");
  }
  std::vector<InputTensor> tensors;
  absl::flat_hash_set<absl::string_view> names;  // a request has room for a million
  for (int i = 0; i < request.inputs_size(); ++i) {
    const Input& input = request.inputs(i);
    const std::string where = absl::StrCat("input '", input.name(), "'");
    if (!names.insert(input.name()).second) {
      return Invalid(where, " is given twice");
    }
    absl::StatusOr<InputTensor> tensor =
        ReadInput(input, raw ? &request.raw_input_contents(i) : nullptr);
    if (!tensor.ok()) {
      return Annotate(tensor.status(), where);
    }
    tensors.push_back(*std::move(tensor));
  }
  return tensors;
}

absl::StatusOr<std::vector<int32_t>> ToIds(const InputTensor& tensor) {
  const bool wide = tensor.datatype->config_type == inference::TYPE_INT64;
  if (!wide && tensor.datatype->config_type != inference::TYPE_INT32) {
    return Invalid("ids are INT32 or INT64, not ", tensor.datatype->name);
  }
  const auto size = static_cast<size_t>(tensor.datatype->size);
  std::vector<int32_t> ids(tensor.bytes.size() / size);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!wide) {
      std::memcpy(&ids[i], tensor.bytes.data() + i * size, size);
      continue;
    }
    int64_t id = 0;
    std::memcpy(&id, tensor.bytes.data() + i * size, size);
    if (id < std::numeric_limits<int32_t>::min() || id > std::numeric_limits<int32_t>::max()) {
      return Invalid("element ", i, " is ", id, ", no id");
    }
    ids[i] = static_cast<int32_t>(id);
  }
  return ids;
}

}  // namespace beamwright::oip
