// What loading a model takes at its peak: packed weights and little else, whatever the file's form
// and the precision. Half a gigabyte with BEAMWRIGHT_CHAOS=long.

#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/graph/graph.h"
#include "ops/import/graph_file.h"
#include "ops/loop/model.h"
#include "ops/tensor/tensor_memory.h"
#include "tests/ops/import/ir_fixture.h"
#include "tests/ops/import/onnx_files.h"
#include "tests/support/sanitized.h"

namespace beamwright::ops {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kWidth = 2048;
constexpr int64_t kWeightBytes = kWidth * kWidth * 4;  // 16 MiB

int NumWeights() {
  const char* const form = getenv("BEAMWRIGHT_CHAOS");
  return form != nullptr && std::strcmp(form, "long") == 0 ? 32 : 6;
}

// A line of /proc/self/status, in bytes.
int64_t StatusBytes(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (absl::StartsWith(line, name + ":")) {
      int64_t kib = 0;
      const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
      EXPECT_TRUE(absl::SimpleAtoi(words[words.size() - 2], &kib)) << line;
      return kib * 1024;
    }
  }
  ADD_FAILURE() << name;
  return 0;
}

// The peak of resident memory while `body` runs beyond what there was before. Files are read, not
// mapped: resident memory is anonymous memory.
template <typename Body>
int64_t PeakOf(Body body) {
  malloc_trim(0);                                 // what was freed before would be used unseen
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak counts from here
  const int64_t before = StatusBytes("VmRSS");
  body();
  return StatusBytes("VmHWM") - before;
}

// Weights that differ in their first element, and are holes otherwise.
std::string WriteSparse(std::ofstream& file, int64_t offset, int weight) {
  const float value = static_cast<float>(weight + 1);
  std::string bytes(sizeof(value), '\0');
  std::memcpy(bytes.data(), &value, sizeof(value));
  file.seekp(offset + weight * kWeightBytes);
  file << bytes;
  return bytes;
}

class LoadMemoryTest : public ::testing::TestWithParam<std::string> {
 protected:
  LoadMemoryTest() : folder_(absl::StrCat(::testing::TempDir(), "/load_memory_", getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~LoadMemoryTest() override { std::filesystem::remove_all(folder_); }

  std::string At(const std::string& name) const { return absl::StrCat(folder_, "/", name); }

  // x times each weight in turn; the path.
  std::string WriteIr() const {
    std::vector<fixture::Layer> layers = {fixture::Parameter(0, "x", absl::StrCat("-1,", kWidth))};
    std::string edges;
    std::string last = "0.0";
    std::ofstream bin(At("m.bin"), std::ios::binary);
    for (int i = 0; i < NumWeights(); ++i) {
      const int weight = 10 + 2 * i;
      const std::string dims = absl::StrCat(kWidth, ",", kWidth);
      layers.push_back({weight,
                        absl::StrCat("w", i),
                        "Const",
                        absl::StrCat("element_type=\"f32\" shape=\"", dims, "\" offset=\"",
                                     i * kWeightBytes, "\" size=\"", kWeightBytes, "\""),
                        {},
                        {fixture::Port(0, dims)}});
      layers.push_back({weight + 1,
                        absl::StrCat("p", i),
                        "MatMul",
                        "",
                        {fixture::Port(0, ""), fixture::Port(1, "")},
                        {fixture::Port(2, "")}});
      absl::StrAppend(&edges, edges.empty() ? "" : ", ", last, "-", weight + 1, ".0, ", weight,
                      ".0-", weight + 1, ".1");
      last = absl::StrCat(weight + 1, ".2");
      WriteSparse(bin, 0, i);
    }
    bin.close();
    std::filesystem::resize_file(At("m.bin"), static_cast<size_t>(NumWeights() * kWeightBytes));
    layers.push_back(fixture::Result(1, "y"));
    std::ofstream(At("m.xml")) << fixture::Net(layers, absl::StrCat(edges, ", ", last, "-1.0"));
    return At("m.xml");
  }

  enum class Elements { kRaw, kFloats, kExternal };

  std::string WriteOnnx(Elements elements) const {
    std::string text = absl::StrCat(
        "input { name: 'x' type { tensor_type { elem_type: 1 shape { dim { dim_param: 'n' } dim { "
        "dim_value: ",
        kWidth, " } } } } } output { name: 'y' }");
    std::string last = "x";
    for (int i = 0; i < NumWeights(); ++i) {
      const std::string next = i + 1 == NumWeights() ? "y" : absl::StrCat("p", i);
      absl::StrAppend(&text, "node { op_type: 'MatMul' input: '", last, "' input: 'w", i,
                      "' output: '", next, "' }");
      last = next;
    }
    onnx::GraphProto graph = fixture::GraphOf(text);
    std::ofstream file(At("m.data"), std::ios::binary);
    for (int i = 0; i < NumWeights(); ++i) {
      onnx::TensorProto& weight = *graph.add_initializer();
      weight.set_name(absl::StrCat("w", i));
      weight.add_dims(kWidth);
      weight.add_dims(kWidth);
      weight.set_data_type(onnx::TensorProto::FLOAT);
      const std::string first = WriteSparse(file, 0, i);
      if (elements == Elements::kRaw) {
        weight.set_raw_data(first + std::string(static_cast<size_t>(kWeightBytes) - 4, '\0'));
      } else if (elements == Elements::kFloats) {
        weight.mutable_float_data()->Resize(static_cast<int>(kWidth * kWidth), 0.0f);
        weight.set_float_data(0, static_cast<float>(i + 1));
      } else {
        weight.set_data_location(onnx::TensorProto::EXTERNAL);
        for (const auto& [key, value] :
             {std::pair<std::string, std::string>("location", "m.data"),
              std::pair<std::string, std::string>("offset", absl::StrCat(i * kWeightBytes)),
              std::pair<std::string, std::string>("length", absl::StrCat(kWeightBytes))}) {
          auto* const entry = weight.add_external_data();
          entry->set_key(key);
          entry->set_value(value);
        }
      }
    }
    file.close();
    std::filesystem::resize_file(At("m.data"), static_cast<size_t>(NumWeights() * kWeightBytes));
    std::ofstream onnx(At("m.onnx"), std::ios::binary);
    EXPECT_TRUE(fixture::Model(graph).SerializeToOstream(&onnx));
    return At("m.onnx");
  }

  std::string Write() const {
    return GetParam() == "ir"           ? WriteIr()
           : GetParam() == "raw_data"   ? WriteOnnx(Elements::kRaw)
           : GetParam() == "float_data" ? WriteOnnx(Elements::kFloats)
                                        : WriteOnnx(Elements::kExternal);
  }

 private:
  std::string folder_;
};

INSTANTIATE_TEST_SUITE_P(Forms, LoadMemoryTest,
                         ::testing::Values("ir", "raw_data", "float_data", "external"),
                         [](const auto& form) { return form.param; });

TEST_P(LoadMemoryTest, ThePeakIsThePackedWeightsAndLittleElse) {
  if (testing_support::kSanitized) {
    GTEST_SKIP() << "the sanitizer's memory is counted as well";
  }
  const std::string path = Write();
  for (const Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
    std::unique_ptr<Model> model;
    const int64_t peak = PeakOf([&] {
      DeferredScope deferred;
      absl::StatusOr<Graph> graph = ReadGraph(path);
      ASSERT_TRUE(graph.ok()) << graph.status();
      absl::StatusOr<std::unique_ptr<Model>> compiled =
          Model::Compile(*std::move(graph), precision);
      ASSERT_TRUE(compiled.ok()) << compiled.status();
      ASSERT_TRUE(deferred.Finish().ok());
      model = *std::move(compiled);
    });
    const int64_t per_weight = precision == Precision::kF32    ? kWeightBytes
                               : precision == Precision::kBf16 ? kWeightBytes / 2
                                                               : kWeightBytes / 4;
    const int64_t packed = NumWeights() * per_weight;
    RecordProperty(absl::StrCat("peak_mib_", Name(precision)), absl::StrCat(peak / kMiB));
    std::printf("%s %s: files %ld MiB, packed %ld MiB, peak %ld MiB\n", GetParam().c_str(),
                std::string(Name(precision)).c_str(),
                static_cast<long>(NumWeights() * kWeightBytes / kMiB),
                static_cast<long>(packed / kMiB), static_cast<long>(peak / kMiB));
    EXPECT_GT(peak, packed / 2);  // it is measured at all
    EXPECT_LE(peak, packed + packed / 10 + 80 * kMiB) << Name(precision);
  }
}

// A weight is read more than once, so a file that changes in between is an error, not a mixture.
TEST_P(LoadMemoryTest, AFileThatChangesWhileItIsLoadedIsAnError) {
  const std::string path = Write();
  for (const bool cut : {false, true}) {
    const std::string weights = GetParam() == "ir"         ? At("m.bin")
                                : GetParam() == "external" ? At("m.data")
                                                           : path;
    Write();
    // The clock of files is a coarse one.
    std::filesystem::last_write_time(
        weights, std::filesystem::last_write_time(weights) - std::chrono::hours(1));
    DeferredScope deferred;
    absl::StatusOr<Graph> graph = ReadGraph(path);
    ASSERT_TRUE(graph.ok()) << graph.status();
    if (cut) {
      std::filesystem::resize_file(weights, 1000);
    } else {
      std::fstream file(weights, std::ios::binary | std::ios::in | std::ios::out);
      file.seekp(-100, std::ios::end);
      file << "changed";
    }
    Model::Compile(*std::move(graph)).status().IgnoreError();
    const absl::Status status = deferred.Finish();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()),
                ::testing::HasSubstr(std::filesystem::path(weights).filename().string()));
  }
}

}  // namespace

// A graph has nothing to do with its files once it is read: overwriting, truncating or removing
// them changes nothing, and mapping them instead would be a fault that this finds.

namespace {

using fixture::Layer;
using fixture::Port;

// More than a page, so that a mapping could fault behind the new end of the file.
constexpr int64_t kColumns = 4096;

std::string Floats(float value) {
  const std::vector<float> values(kColumns, value);
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

class Folder {
 public:
  Folder() : path_(absl::StrCat(::testing::TempDir(), "/file_lifetime_", getpid())) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string At(const std::string& name) const { return absl::StrCat(path_, "/", name); }
  // Into the file that is there, as cp does; a rename would leave readers the old one.
  void Write(const std::string& name, const std::string& content) const {
    std::ofstream(At(name), std::ios::binary | std::ios::trunc) << content;
  }

 private:
  std::string path_;
};

TEST(FileLifetime, WhatHappensToTheFilesLaterChangesNothing) {
  const std::string xml =
      fixture::Net({fixture::Parameter(0, "x", absl::StrCat("1,", kColumns)),
                    Layer{1,
                          "c",
                          "Const",
                          absl::StrCat("element_type=\"f32\" shape=\"1,", kColumns,
                                       "\" offset=\"0\" size=\"", kColumns * 4, "\""),
                          {},
                          {Port(0, absl::StrCat("1,", kColumns))}},
                    Layer{2, "sum", "Add", "", {Port(0, ""), Port(1, "")}, {Port(2, "")}},
                    fixture::Result(3, "y")},
                   "0.0-2.0, 1.0-2.1, 2.2-3.0");
  enum class Fate { kOverwritten, kTruncated, kRemoved };
  for (const Fate fate : {Fate::kOverwritten, Fate::kTruncated, Fate::kRemoved}) {
    for (const bool compiled_before : {false, true}) {
      const Folder folder;
      folder.Write("model.xml", xml);
      folder.Write("model.bin", Floats(2));
      absl::StatusOr<Graph> graph = ReadGraph(folder.At("model.xml"));
      ASSERT_TRUE(graph.ok()) << graph.status();
      absl::StatusOr<std::unique_ptr<Model>> model;
      if (compiled_before) {
        model = Model::Compile(*graph);
      }
      for (const char* name : {"model.xml", "model.bin"}) {
        if (fate == Fate::kRemoved) {
          std::filesystem::remove(folder.At(name));
        } else {
          folder.Write(name, fate == Fate::kTruncated ? "" : Floats(7));
        }
      }
      if (!compiled_before) {
        model = Model::Compile(*graph);
      }
      ASSERT_TRUE(model.ok()) << model.status();
      std::vector<Tensor> outputs;
      const absl::Status ran =
          (*model)->Run({}, {Tensor::Zeros(DType::kF32, {1, kColumns})}, outputs);
      ASSERT_TRUE(ran.ok()) << ran;
      EXPECT_THAT(outputs[0].span<float>(), ::testing::Each(2.0f));
    }
  }
}

}  // namespace

// Messages call a node what its file calls it, whatever it becomes here.

namespace {

using ::testing::UnorderedElementsAre;

void Collect(const Graph& graph, std::set<std::string>& described) {
  for (const Node& node : graph.nodes) {
    if (node.op != "Parameter" && node.op != "Result" && node.op != "Constant") {
      described.insert(Describe(node));
    }
    if (node.loop != nullptr) {
      Collect(node.loop->body, described);
    }
  }
}

TEST(FileOperatorTest, NodesAreDescribedByTheFilesNames) {
  const auto graph = fixture::Parse(fixture::Model(fixture::GraphOf(R"pb(
    node { op_type: "Max" name: "most" input: "x" input: "x" output: "a" }
    node { op_type: "Add" name: "same" input: "a" input: "x" output: "b" }
    node {
      op_type: "RNN"
      name: "layer"
      input: "b"
      input: "w"
      input: "r"
      output: "y"
      attribute { name: "hidden_size" i: 1 type: INT }
    }
    initializer { name: "w" data_type: 1 dims: 1 dims: 1 dims: 2 float_data: 1 float_data: 1 }
    initializer { name: "r" data_type: 1 dims: 1 dims: 1 dims: 1 float_data: 1 }
    input {
      name: "x"
      type {
        tensor_type {
          elem_type: 1
          shape {
            dim { dim_value: 3 }
            dim { dim_value: 1 }
            dim { dim_value: 2 }
          }
        }
      }
    }
    output {
      name: "y"
      type { tensor_type { elem_type: 1 } }
    }
  )pb")));
  ASSERT_TRUE(graph.ok()) << graph.status();
  std::set<std::string> described;
  Collect(*graph, described);
  EXPECT_THAT(described, UnorderedElementsAre("Max 'most'", "Add 'same'", "RNN 'layer'"));
}

}  // namespace

}  // namespace beamwright::ops
