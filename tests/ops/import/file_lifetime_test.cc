// A graph has nothing to do with its files once it is read: overwriting, truncating or removing
// them changes nothing, and mapping them instead would be a fault that this finds.
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/import/graph_file.h"
#include "ops/loop/model.h"
#include "tests/ops/import/ir_fixture.h"

namespace beamwright::ops {
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
}  // namespace beamwright::ops
