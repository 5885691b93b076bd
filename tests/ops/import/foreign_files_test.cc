// Files that are not graphs, weights that stand elsewhere, and graphs that compute nothing.
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/import/graph_file.h"
#include "tests/ops/import/ir_fixture.h"
#include "tests/ops/import/onnx_files.h"

namespace beamwright::ops {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kLfs[] = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";

class ForeignFilesTest : public ::testing::Test {
 protected:
  ForeignFilesTest() {
    std::string pattern = ::testing::TempDir() + "/foreign_files_XXXXXX";
    root_ = mkdtemp(pattern.data());
    fs::create_directories(root_ / "models/m");
    fs::create_directories(root_ / "models/blobs");
    fs::create_directories(root_ / "secret");
  }
  ~ForeignFilesTest() override { fs::remove_all(root_); }

  std::string Write(const std::string& name, const std::string& content) const {
    std::ofstream(root_ / name, std::ios::binary) << content;
    return (root_ / name).string();
  }
  // What ReadGraph says, "" if all is well.
  std::string Read(const std::string& name, const std::string& allow_links = "") const {
    ImportOptions options;
    options.allow_links = allow_links.empty() ? "" : (root_ / allow_links).string();
    const absl::StatusOr<Graph> graph = ReadGraph((root_ / name).string(), options);
    return graph.ok() ? "" : std::string(graph.status().message());
  }
  // An IR whose constant of 8 bytes needs weights.
  static std::string Ir() {
    return fixture::Net({{3,
                          "w",
                          "Const",
                          "element_type=\"f32\" shape=\"2\" offset=\"0\" size=\"8\"",
                          {},
                          {fixture::Port(0, "2")}},
                         fixture::Result(1, "r")},
                        "3.0-1.0");
  }
  static std::string Onnx() {
    return fixture::Model(
               fixture::GraphOf("initializer { name: 'w' dims: 2 data_type: 1 data_location: "
                                "EXTERNAL external_data { key: 'location' value: 'm.data' } } "
                                "node { op_type: 'Identity' input: 'w' output: 'y' } "
                                "output { name: 'y' }"))
        .SerializeAsString();
  }

  fs::path root_;
};

TEST_F(ForeignFilesTest, WhatAFileIsInsteadIsSaid) {
  const std::string zip("PK\x03\x04rest", 8);
  const std::string gzip("\x1f\x8b\x08rest", 7);
  const std::string ort("\x24\0\0\0ORTMrest", 12);
  for (const std::string name : {"a.onnx", "a.xml"}) {
    Write(name, kLfs);
    EXPECT_THAT(Read(name), AllOf(HasSubstr(name), HasSubstr("is a Git LFS pointer"),
                                  HasSubstr("git lfs pull")));
    Write(name, zip);
    EXPECT_THAT(Read(name), AllOf(HasSubstr(name), HasSubstr("is a zip archive")));
    Write(name, gzip);
    EXPECT_THAT(Read(name), HasSubstr("is compressed with gzip"));
    Write(name, ort);
    EXPECT_THAT(Read(name), HasSubstr("ONNX Runtime's own format"));
  }
  EXPECT_THAT(Read("a.ort"), AllOf(HasSubstr("is not the name of a graph file"),
                                   HasSubstr("ONNX Runtime's own format")));
}

TEST_F(ForeignFilesTest, WeightsMayBeAGitLfsPointerToo) {
  Write("models/m/m.xml", Ir());
  Write("models/m/m.bin", kLfs);
  EXPECT_THAT(Read("models/m/m.xml"), HasSubstr("m.bin': is a Git LFS pointer"));
  Write("models/m/m.onnx", Onnx());
  Write("models/m/m.data", kLfs);
  EXPECT_THAT(Read("models/m/m.onnx"), HasSubstr("'m.data': is a Git LFS pointer"));
  // Any bytes are good weights, also those that archives begin with.
  Write("models/m/m.bin", std::string("PK\x03\x04PK\x03\x04", 8));
  EXPECT_EQ(Read("models/m/m.xml"), "");
}

// Links lead within the graph file's folder, or into the one folder that is named.
TEST_F(ForeignFilesTest, LinksOfWeightsStayInsideWhatIsNamed) {
  const std::string weights(8, '\0');
  Write("models/blobs/1234", weights);
  Write("secret/key", weights);
  Write("models/m/m.xml", Ir());
  Write("models/m/m.onnx", Onnx());
  for (const auto& [graph, link] : {std::pair<std::string, std::string>("m.xml", "m.bin"),
                                    std::pair<std::string, std::string>("m.onnx", "m.data")}) {
    const std::string name = absl::StrCat("models/m/", graph);
    const fs::path weights_link = root_ / "models/m" / link;
    fs::create_symlink("../blobs/1234", weights_link);
    EXPECT_THAT(Read(name), AllOf(HasSubstr(link), HasSubstr("outside of the model's folder"),
                                  HasSubstr("--allow-links")));
    EXPECT_EQ(Read(name, "models"), "") << graph;
    EXPECT_EQ(Read(name, "models/blobs"), "") << graph;
    EXPECT_THAT(Read(name, "secret"), HasSubstr("outside of the model's folder and of"));
    fs::remove(weights_link);
    fs::create_symlink(root_ / "secret/key", weights_link);
    EXPECT_THAT(Read(name, "models"), HasSubstr("outside of the model's folder"));
    fs::remove(weights_link);
    EXPECT_NE(Read(name, "absent"), "");
  }
}

// A cache names its graph, too, by a link; kubelet puts all of a mount behind one.
TEST_F(ForeignFilesTest, TheGraphItselfMayBeALink) {
  Write("models/blobs/graph", Ir());
  Write("models/blobs/1234", std::string(8, '\0'));
  fs::create_symlink("../blobs/graph", root_ / "models/m/m.xml");
  fs::create_symlink("../blobs/1234", root_ / "models/m/m.bin");
  EXPECT_EQ(Read("models/m/m.xml", "models"), "");
  fs::create_directories(root_ / "mount/..2026_11_22");
  fs::create_symlink("..2026_11_22", root_ / "mount/..data");
  Write("mount/..2026_11_22/m.xml", Ir());
  Write("mount/..2026_11_22/m.bin", std::string(8, '\0'));
  fs::create_symlink("..data/m.xml", root_ / "mount/m.xml");
  fs::create_symlink("..data/m.bin", root_ / "mount/m.bin");
  EXPECT_EQ(Read("mount/m.xml"), "");
}

TEST_F(ForeignFilesTest, AGraphWithoutResultsIsAnError) {
  Write("a.xml",
        fixture::Net({fixture::Parameter(0, "x", "2"), fixture::Unary(1, "r", "ReLU")}, "0.0-1.0"));
  EXPECT_THAT(Read("a.xml"), HasSubstr("the net has no Result layer"));
  Write("a.onnx", fixture::Model(fixture::GraphOf("node { op_type: 'Relu' input: 'x' output: 'y' }"
                                                  "input { name: 'x' type { tensor_type { "
                                                  "elem_type: 1 } } }"))
                      .SerializeAsString());
  EXPECT_THAT(Read("a.onnx"), HasSubstr("the graph has no outputs"));
}

// Large tensors stay in the file; a file cannot claim that they do.
TEST_F(ForeignFilesTest, ElementsThatStayInTheFileAreCheckedLikeOthers) {
  const auto model = [&](int64_t elements, const std::string& raw) {
    onnx::GraphProto graph = fixture::GraphOf(
        "initializer { name: 'w' data_type: 1 } "
        "node { op_type: 'Identity' input: 'w' output: 'y' } output { name: 'y' }");
    graph.mutable_initializer(0)->add_dims(elements);
    graph.mutable_initializer(0)->set_raw_data(raw);
    return graph;
  };
  constexpr int64_t kCount = 10'000;
  onnx::GraphProto sound = model(kCount, std::string(kCount * 4, '\1'));
  Write("a.onnx", fixture::Model(sound).SerializeAsString());
  EXPECT_EQ(Read("a.onnx"), "");
  Write("a.onnx",
        fixture::Model(model(kCount + 1, std::string(kCount * 4, '\1'))).SerializeAsString());
  EXPECT_THAT(Read("a.onnx"), HasSubstr("has 40000 bytes of elements; f32[10001] takes 40004"));
  // The marks that readers put into messages: fields 536870910 and 536870911, with an offset and a
  // size. As the file has them they mean nothing.
  for (const char mark : {'\xf2', '\xfa'}) {
    for (const bool with_elements : {false, true}) {
      onnx::GraphProto forged = model(2, with_elements ? std::string(8, '\1') : "");
      const std::string field = std::string(1, mark) + "\xff\xff\xff\x0f\x10" +
                                std::string(8, '\0') + std::string("\x08\0\0\0\0\0\0\0", 8);
      ASSERT_TRUE(forged.mutable_initializer(0)->MergeFromString(field));
      Write("a.onnx", fixture::Model(forged).SerializeAsString());
      EXPECT_EQ(Read("a.onnx").empty(), with_elements) << Read("a.onnx");
      // The same tag with bits that protobuf drops.
      std::string wide = fixture::Model(forged).SerializeAsString();
      const size_t at = wide.find("\xff\xff\xff\x0f\x10");
      ASSERT_NE(at, std::string::npos);
      wide[at + 3] = '\x1f';
      Write("a.onnx", wide);
      EXPECT_EQ(Read("a.onnx").empty(), with_elements) << Read("a.onnx");
    }
  }
  // Twice, once large.
  onnx::ModelProto twice = fixture::Model(sound);
  twice.mutable_graph()->mutable_initializer(0)->add_float_data(1);
  Write("a.onnx", twice.SerializeAsString());
  EXPECT_THAT(Read("a.onnx"), HasSubstr("has its elements more than once"));
}

}  // namespace
}  // namespace beamwright::ops
