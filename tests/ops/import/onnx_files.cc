#include "tests/ops/import/onnx_files.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"
#include "ops/base/file.h"
#include "ops/base/status.h"
#include "ops/import/graph_file.h"

namespace beamwright::ops::fixture {
namespace {

namespace fs = std::filesystem;

constexpr char kFolder[] = "/usr/share/libonnx-testdata/data/node";

// The element type of a message, without the library's own reader.
DType TypeOf(int32_t data_type) {
  constexpr DType kTypes[] = {DType::kUndefined, DType::kF32,  DType::kU8,        DType::kI8,
                              DType::kU16,       DType::kI16,  DType::kI32,       DType::kI64,
                              DType::kUndefined, DType::kBool, DType::kF16,       DType::kF64,
                              DType::kU32,       DType::kU64,  DType::kUndefined, DType::kUndefined,
                              DType::kBF16};
  return data_type >= 0 && data_type <= 16 ? kTypes[data_type] : DType::kUndefined;
}

absl::StatusOr<Tensor> ReadTensor(const std::string& path) {
  BW_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  onnx::TensorProto message;
  if (!message.ParseFromString(bytes) || TypeOf(message.data_type()) == DType::kUndefined) {
    return absl::UnimplementedError(absl::StrCat(path, " is not a tensor of a known type"));
  }
  Tensor tensor(TypeOf(message.data_type()), Shape(message.dims().begin(), message.dims().end()));
  std::string raw = message.raw_data();
  const auto append = [&](const auto& field) {
    raw.append(reinterpret_cast<const char*>(field.data()), field.size() * sizeof(*field.data()));
  };
  if (raw.empty()) {
    append(message.float_data());
    append(message.int64_data());
    append(message.double_data());
    for (const int32_t value : message.int32_data()) {  // also narrower types
      raw.append(reinterpret_cast<const char*>(&value),
                 static_cast<size_t>(SizeOf(tensor.dtype())));
    }
    for (const uint64_t value : message.uint64_data()) {
      raw.append(reinterpret_cast<const char*>(&value),
                 static_cast<size_t>(SizeOf(tensor.dtype())));
    }
  }
  if (static_cast<int64_t>(raw.size()) != tensor.num_bytes()) {
    return absl::UnimplementedError(absl::StrCat(path, " has another number of elements"));
  }
  if (!raw.empty()) {
    std::memcpy(tensor.mutable_bytes(), raw.data(), raw.size());
  }
  return tensor;
}

double ElementAt(const Tensor& tensor, int64_t i) {
  return VisitDType(tensor.dtype(), [&](auto type) -> double {
    using T = decltype(type);
    const T value = tensor.data<T>()[i];
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      return static_cast<double>(ToFloat(value));
    } else {
      return static_cast<double>(value);
    }
  });
}

}  // namespace

std::vector<std::string> OnnxNodeTests() {
  std::vector<std::string> tests;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(kFolder, error)) {
    tests.emplace_back(absl::StripPrefix(entry.path().filename().string(), "test_"));
  }
  std::sort(tests.begin(), tests.end());
  return tests;
}

std::string OnnxNodeTestFolder(const std::string& test) {
  return absl::StrCat(kFolder, "/test_", test);
}

absl::StatusOr<std::vector<Tensor>> ReadTensors(const std::string& folder,
                                                const std::string& kind) {
  std::vector<Tensor> tensors;
  for (int i = 0;; ++i) {
    const std::string path = absl::StrCat(folder, "/", kind, "_", i, ".pb");
    if (!fs::exists(path)) {
      return tensors;
    }
    BW_ASSIGN_OR_RETURN(Tensor tensor, ReadTensor(path));
    tensors.push_back(std::move(tensor));
  }
}

std::string Difference(const Tensor& actual, const Tensor& expected, double tolerance) {
  if (actual.dtype() != expected.dtype() || actual.shape() != expected.shape()) {
    return absl::StrCat("is ", Name(actual.dtype()), ToString(actual.shape()), ", expected ",
                        Name(expected.dtype()), ToString(expected.shape()));
  }
  if (!IsFloat(expected.dtype())) {
    if (expected.num_elements() > 0 && std::memcmp(actual.bytes(), expected.bytes(),
                                                   static_cast<size_t>(actual.num_bytes())) != 0) {
      for (int64_t i = 0; i < expected.num_elements(); ++i) {
        if (ElementAt(actual, i) != ElementAt(expected, i)) {
          return absl::StrCat("element ", i, " is ", ElementAt(actual, i), ", expected ",
                              ElementAt(expected, i));
        }
      }
      return "integers differ";
    }
    return "";
  }
  for (int64_t i = 0; i < expected.num_elements(); ++i) {
    const double a = ElementAt(actual, i);
    const double e = ElementAt(expected, i);
    const bool same = (std::isnan(a) && std::isnan(e)) || a == e ||
                      std::fabs(a - e) <= tolerance * (1 + std::fabs(e));
    if (!same) {
      return absl::StrCat("element ", i, " is ", a, ", expected ", e);
    }
  }
  return "";
}

onnx::ModelProto Model(onnx::GraphProto graph, int64_t opset) {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(opset);
  *model.mutable_graph() = std::move(graph);
  return model;
}

onnx::GraphProto GraphOf(const std::string& text) {
  onnx::GraphProto graph;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &graph)) << text;
  return graph;
}

absl::StatusOr<Graph> Parse(const onnx::ModelProto& model) {
  return ParseOnnx(model.SerializeAsString(), [](const std::string& name) {
    return absl::StatusOr<std::string>(absl::NotFoundError(name));
  });
}

std::string ErrorOf(const onnx::ModelProto& model) {
  const absl::StatusOr<Graph> graph = Parse(model);
  return graph.ok() ? "" : std::string(graph.status().message());
}

}  // namespace beamwright::ops::fixture
