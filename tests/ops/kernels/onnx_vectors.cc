#include "tests/ops/kernels/onnx_vectors.h"

#include <cstring>
#include <filesystem>
#include <utility>

#include "ops/base/check.h"
#include "ops/base/file.h"

namespace beamwright::ops {
namespace {

const char kFolder[] = "/usr/share/libonnx-testdata/data/node/";

struct Field {
  int number = 0;
  uint64_t integer = 0;  // wire type 0
  std::string bytes;     // wire types 1, 2, 5
};

std::vector<Field> Parse(const std::string& message) {
  std::vector<Field> fields;
  size_t at = 0;
  const auto varint = [&] {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(message.at(at++));
      value |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < message.size()) {
    const uint64_t tag = varint();
    Field field{static_cast<int>(tag >> 3)};
    const uint64_t type = tag & 7;
    if (type == 0) {
      field.integer = varint();
    } else {
      const uint64_t size = type == 2 ? varint() : type == 1 ? 8 : 4;
      field.bytes = message.substr(at, size);
      at += size;
    }
    fields.push_back(std::move(field));
  }
  return fields;
}

std::vector<int64_t> Varints(const Field& field) {
  if (field.bytes.empty()) return {static_cast<int64_t>(field.integer)};
  // Packed: the same wire format as a sequence of untagged numbers.
  std::vector<int64_t> values;
  uint64_t value = 0;
  int shift = 0;
  for (const char c : field.bytes) {
    const auto byte = static_cast<unsigned char>(c);
    value |= static_cast<uint64_t>(byte & 127) << shift;
    shift += 7;
    if (byte < 128) {
      values.push_back(static_cast<int64_t>(value));
      value = 0;
      shift = 0;
    }
  }
  return values;
}

float AsFloat(const std::string& bytes, size_t at = 0) {
  float value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

// TensorProto.DataType
DType TypeOf(uint64_t type) {
  static const std::map<uint64_t, DType> types = {
      {1, DType::kF32},  {2, DType::kU8},   {3, DType::kI8},   {4, DType::kU16},  {5, DType::kI16},
      {6, DType::kI32},  {7, DType::kI64},  {9, DType::kBool}, {10, DType::kF16}, {11, DType::kF64},
      {12, DType::kU32}, {13, DType::kU64}, {16, DType::kBF16}};
  return types.at(type);
}

// TensorProto: dims 1, data_type 2, float_data 4, name 8, raw_data 9.
std::pair<std::string, Tensor> ReadTensor(const std::string& file) {
  std::string name, raw;
  Shape shape;
  uint64_t type = 0;
  for (const Field& field : Parse(*ReadFile(file))) {
    if (field.number == 1) {
      for (const int64_t dim : Varints(field)) shape.push_back(dim);
    }
    if (field.number == 2) type = field.integer;
    if (field.number == 4) raw += field.bytes;
    if (field.number == 8) name = field.bytes;
    if (field.number == 9) raw = field.bytes;
  }
  Tensor tensor(TypeOf(type), shape);
  BW_CHECK(static_cast<int64_t>(raw.size()) == tensor.num_bytes());
  std::memcpy(tensor.mutable_bytes(), raw.data(), raw.size());
  return {name, tensor};
}

// AttributeProto: name 1, f 2, i 3, s 4, floats 7, ints 8, type 20 (1 f, 2 i, 3 s, 6 floats,
// 7 ints).
void ReadAttribute(const std::string& message, OnnxVectors& result) {
  std::string name, text;
  uint64_t type = 0;
  int64_t integer = 0;
  float number = 0;
  std::vector<int64_t> ints;
  std::vector<double> floats;
  for (const Field& field : Parse(message)) {
    if (field.number == 1) name = field.bytes;
    if (field.number == 2) number = AsFloat(field.bytes);
    if (field.number == 3) integer = static_cast<int64_t>(field.integer);
    if (field.number == 4) text = field.bytes;
    if (field.number == 7) {
      for (size_t at = 0; at < field.bytes.size(); at += 4) {
        floats.push_back(AsFloat(field.bytes, at));
      }
    }
    if (field.number == 8) {
      for (const int64_t value : Varints(field)) ints.push_back(value);
    }
    if (field.number == 20) type = field.integer;
  }
  result.attributes[name] = integer;
  if (type == 1) result.values[name] = double{number};
  if (type == 2) result.values[name] = integer;
  if (type == 3) result.values[name] = text;
  if (type == 6) result.values[name] = floats;
  if (type == 7) result.values[name] = ints;
}

}  // namespace

bool HaveOnnxVectors() { return std::filesystem::exists(kFolder); }

OnnxVectors ReadOnnxVectors(const std::string& test) {
  OnnxVectors result;
  const std::string folder = kFolder + test;
  // ModelProto.graph 7, GraphProto.node 1; NodeProto: input 1, output 2, attribute 5.
  for (const Field& model : Parse(*ReadFile(folder + "/model.onnx"))) {
    for (const Field& graph : model.number == 7 ? Parse(model.bytes) : std::vector<Field>()) {
      for (const Field& node : graph.number == 1 ? Parse(graph.bytes) : std::vector<Field>()) {
        if (node.number == 1) result.input_names.push_back(node.bytes);
        if (node.number == 2) result.output_names.push_back(node.bytes);
        if (node.number == 5) ReadAttribute(node.bytes, result);
      }
    }
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/test_data_set_0")) {
    result.tensors.insert(ReadTensor(entry.path()));
  }
  return result;
}

}  // namespace beamwright::ops
