#include "client/cli/features.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/base/status.h"
#include "ops/numpy/npz.h"

namespace beamwright::client {
namespace {

using ops::Tensor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A model whose encoder reads pictures [rows, 1, 2, width].
v1::ModelDescription Pictures() {
  v1::ModelDescription model;
  model.mutable_summary()->set_name("ocr");
  model.mutable_encoder_input()->set_name("image");
  model.mutable_encoder_input()->set_dtype("f32");
  for (const int64_t extent : {1, 2, -1}) {
    model.mutable_encoder_input()->add_shape(extent);
  }
  model.set_source_length_axis(3);
  return model;
}

class FeaturesTest : public ::testing::Test {
 protected:
  FeaturesTest()
      : folder_(std::filesystem::temp_directory_path() /
                ("features_test." + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~FeaturesTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  std::string Write(const std::string& name, const std::string& content) const {
    std::ofstream(Path(name), std::ios::binary) << content;
    return Path(name);
  }
  absl::StatusOr<std::vector<NamedFeatures>> Read(const std::string& path,
                                                  const std::string& raw_shape = "") const {
    FeatureFlags flags;
    flags.files = {path};
    flags.raw_shape = raw_shape;
    BW_ASSIGN_OR_RETURN(const FeatureFiles files, FeatureFiles::Make(flags, Pictures()));
    return files.Read(path);
  }
  std::string Error(const std::string& path, const std::string& raw_shape = "") const {
    return std::string(Read(path, raw_shape).status().message());
  }

 private:
  std::filesystem::path folder_;
};

std::vector<float> Elements(const v1::Tensor& tensor) {
  std::vector<float> elements(tensor.data().size() / sizeof(float));
  std::copy(tensor.data().begin(), tensor.data().end(), reinterpret_cast<char*>(elements.data()));
  return elements;
}

TEST_F(FeaturesTest, NumpysDefaultTypesBecomeTheEncoders) {
  const auto doubles = Tensor::Of({1, 2, 2}, std::vector<double>{0.5, -1, 2, 3});
  const auto bytes = Tensor::Of({1, 2, 1}, std::vector<uint8_t>{255, 7});
  ASSERT_TRUE(ops::WriteNpz(Path("two.npz"), {{"a", doubles}, {"b", bytes}}).ok());
  const auto sources = Read(Path("two.npz"));
  ASSERT_TRUE(sources.ok()) << sources.status();
  ASSERT_EQ(sources->size(), 2u);
  EXPECT_EQ((*sources)[0].name, Path("two.npz") + ":a");
  EXPECT_EQ((*sources)[0].tensor.dtype(), "f32");
  EXPECT_THAT((*sources)[0].tensor.shape(), ElementsAre(1, 2, 2));
  EXPECT_THAT(Elements((*sources)[0].tensor), ElementsAre(0.5f, -1, 2, 3));
  EXPECT_THAT(Elements((*sources)[1].tensor), ElementsAre(255, 7));
}

TEST_F(FeaturesTest, RawFloatsTakeTheirOpenExtentFromTheFile) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const std::string path =
      Write("raw.f32", std::string(reinterpret_cast<const char*>(values.data()), 24));
  const auto sources = Read(path, "1,2,-1");
  ASSERT_TRUE(sources.ok()) << sources.status();
  EXPECT_EQ((*sources)[0].name, path);
  EXPECT_THAT((*sources)[0].tensor.shape(), ElementsAre(1, 2, 3));
  EXPECT_THAT(Elements((*sources)[0].tensor), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(FeaturesTest, FilesThatDoNotFit) {
  const auto batch = Tensor::Of({1, 1, 2, 1}, std::vector<float>{1, 2});
  const std::string path = Write("batch.npy", ops::FormatNpy(batch));
  EXPECT_EQ(Error(path),
            "[1, 1, 2, 1] has an axis too many: a source is image f32 [1, 2, length], without the "
            "axis of rows; save x[0] instead of x");
  ASSERT_TRUE(ops::WriteNpz(Path("batch.npz"), {{"x", batch}}).ok());
  EXPECT_THAT(Error(Path("batch.npz")), HasSubstr("array 'x': [1, 1, 2, 1] has an axis too many"));
  const std::string raw = Write("raw.f32", std::string(12, '\0'));
  EXPECT_THAT(Error(raw), HasSubstr("of raw f32 say the shape with --features-shape"));
  EXPECT_EQ(Error(raw, "1,2,-1"), "has 12 bytes; f32 of shape [1, 2, -1] needs a multiple of 8");
  EXPECT_EQ(Error(raw, "1,2,2"), "has 12 bytes; f32 of shape [1, 2, 2] needs 16");
  EXPECT_THAT(Error(Write("empty.f32", ""), "1,2,-1"), HasSubstr("has 0 bytes"));
  EXPECT_THAT(Error(Path("missing.npy")), HasSubstr("missing.npy"));
  EXPECT_THAT(Error(Write("text.npy", "hello")), HasSubstr("not a .npy file"));
}

TEST_F(FeaturesTest, ShapesThatAreNone) {
  for (const std::string shape :
       {"", "1,,2", "0,2", "-2", "x", "1,2,", "-1,-1", "4000000000,4000000000,4"}) {
    SCOPED_TRACE(shape);
    EXPECT_FALSE(Read(Write("raw.f32", std::string(8, '\0')), shape).ok());
  }
}

// Of `sources` texts, by the flag.
absl::Status AddFurther(const std::string& flag, std::vector<v1::Source>& sources) {
  v1::ModelDescription model;
  model.mutable_summary()->set_name("tts");
  v1::TensorDescription& speaker = *model.add_further_inputs();
  speaker.set_name("speaker");
  speaker.set_dtype("f32");
  speaker.add_shape(2);
  FeatureFlags flags;
  flags.further = {flag};
  BW_ASSIGN_OR_RETURN(const FeatureFiles files, FeatureFiles::Make(flags, model));
  for (size_t i = 0; i < sources.size(); ++i) {
    BW_RETURN_IF_ERROR(files.AddFurtherInputs(i, sources[i]));
  }
  return absl::OkStatus();
}

TEST_F(FeaturesTest, FurtherInputsAreForAllSourcesOrOneEach) {
  const auto one = Tensor::Of({2}, std::vector<double>{0.5, 1});
  const auto two = Tensor::Of({2}, std::vector<double>{2, 3});
  const std::string file = Write("speaker.npy", ops::FormatNpy(one));
  std::vector<v1::Source> sources(2);
  ASSERT_TRUE(AddFurther("speaker=" + file, sources).ok());
  EXPECT_EQ(sources[1].further_inputs().at("speaker").dtype(), "f32");
  EXPECT_THAT(Elements(sources[1].further_inputs().at("speaker")), ElementsAre(0.5f, 1));
  ASSERT_TRUE(ops::WriteNpz(Path("each.npz"), {{"a", one}, {"b", two}}).ok());
  ASSERT_TRUE(AddFurther("speaker=" + Path("each.npz"), sources).ok());
  EXPECT_THAT(Elements(sources[1].further_inputs().at("speaker")), ElementsAre(2, 3));
  sources.resize(3);
  EXPECT_THAT(AddFurther("speaker=" + Path("each.npz"), sources).message(),
              HasSubstr("has 2 arrays; this is source 3"));
  EXPECT_THAT(AddFurther("voice=" + file, sources).message(),
              HasSubstr("model tts takes no 'voice'; it takes speaker f32 [2]"));
  EXPECT_THAT(AddFurther("speaker", sources).message(), HasSubstr("is not NAME=FILE"));
  EXPECT_THAT(AddFurther("speaker=x.f32", sources).message(),
              HasSubstr("ends in neither .npy nor .npz"));
}

TEST_F(FeaturesTest, ModelsThatReadSomethingElse) {
  v1::ModelDescription text = Pictures();
  text.mutable_encoder_input()->set_dtype("i64");
  EXPECT_EQ(FeatureFiles::Make({}, text).status().message(),
            "--features: model ocr takes text or ids, not features");
  text.clear_encoder_input();
  EXPECT_EQ(FeatureFiles::Make({}, text).status().message(),
            "--features: model ocr has no encoder to read features");
}

}  // namespace
}  // namespace beamwright::client
