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

// TensorProto: dims 1, data_type 2 (1: f32, 6: i32), float_data 4, name 8, raw_data 9.
std::pair<std::string, Tensor> ReadTensor(const std::string& file) {
  std::string name, raw;
  Shape shape;
  uint64_t type = 0;
  for (const Field& field : Parse(*ReadFile(file))) {
    if (field.number == 1 && field.bytes.empty())
      shape.push_back(static_cast<int64_t>(field.integer));
    if (field.number == 1 && !field.bytes.empty()) {
      for (const char dim : field.bytes) shape.push_back(dim);  // packed, below 128
    }
    if (field.number == 2) type = field.integer;
    if (field.number == 4) raw += field.bytes;
    if (field.number == 8) name = field.bytes;
    if (field.number == 9) raw = field.bytes;
  }
  Tensor tensor(type == 1 ? DType::kF32 : DType::kI32, shape);
  BW_CHECK(static_cast<int64_t>(raw.size()) == tensor.num_bytes());
  std::memcpy(tensor.mutable_bytes(), raw.data(), raw.size());
  return {name, tensor};
}

}  // namespace

bool HaveOnnxVectors() { return std::filesystem::exists(kFolder); }

OnnxVectors ReadOnnxVectors(const std::string& test) {
  OnnxVectors result;
  const std::string folder = kFolder + test;
  // ModelProto.graph 7, GraphProto.node 1; NodeProto: input 1, output 2, attribute 5;
  // AttributeProto: name 1, i 3.
  for (const Field& model : Parse(*ReadFile(folder + "/model.onnx"))) {
    for (const Field& graph : model.number == 7 ? Parse(model.bytes) : std::vector<Field>()) {
      for (const Field& node : graph.number == 1 ? Parse(graph.bytes) : std::vector<Field>()) {
        if (node.number == 1) result.input_names.push_back(node.bytes);
        if (node.number == 2) result.output_names.push_back(node.bytes);
        if (node.number != 5) continue;
        std::string name;
        int64_t value = 0;
        for (const Field& attribute : Parse(node.bytes)) {
          if (attribute.number == 1) name = attribute.bytes;
          if (attribute.number == 3) value = static_cast<int64_t>(attribute.integer);
        }
        result.attributes[name] = value;
      }
    }
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/test_data_set_0")) {
    result.tensors.insert(ReadTensor(entry.path()));
  }
  return result;
}

}  // namespace beamwright::ops
