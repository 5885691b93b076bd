// Which axis of a tensor of features counts as the source's length: given by the bundle, found
// where one axis alone is open, and refused where it would be a guess. Pictures: the input that an
// encoder of each layout gets, limits, and bundles that do not fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/model/decode_model.h"
#include "engine/request/media_sources.h"
#include "engine/request/prepared_source.h"
#include "include/beamwright/engine.h"
#include "ops/base/file.h"
#include "ops/base/status.h"
#include "tests/engine/table_bundle.h"
#include "tests/support/graph_builder.h"

namespace beamwright::engine {
namespace {

using ::testing::HasSubstr;
using Dims = std::vector<int64_t>;

// The first state is 0 whatever the features [rows, ...] are; with `masked` they are multiplied by
// a mask [rows, length] over their last axis.
bundle::Bundle FeatureBundle(const Dims& dims, int length_axis, bool masked = false) {
  bundle::Bundle bundle = engine_testing::TableBundle(engine_testing::RandomTable(3), {});
  testing_support::GraphBuilder graph;
  ops::ValueId image =
      graph.Parameter("image", ops::DType::kF32, ops::Shape(dims.begin(), dims.end()));
  if (masked) {
    const auto mask = graph.Parameter("mask", ops::DType::kF32, {-1, -1});
    const auto wide = graph.Add("Unsqueeze", {mask, graph.Ints({1, 2})});
    image = graph.Add("Multiply", {image, wide});
    bundle.config.mutable_encoder()->set_length_kind(v1::LENGTH_INPUT_MASK);
    bundle.config.mutable_encoder()->set_length_input("mask");
  }
  Dims axes;
  for (int64_t axis = 1; axis < static_cast<int64_t>(dims.size()); ++axis) {
    axes.push_back(axis);
  }
  const auto sum = graph.Add("ReduceSum", {image, graph.Ints(axes)}, {{"keep_dims", false}});
  const auto none = graph.Add("Multiply", {sum, graph.Constant(ops::Tensor::Scalar(0.0f))});
  graph.Result("first_state",
               graph.Add("Convert", {none}, {{"destination_type", std::string("i64")}}));
  bundle.encoder = graph.Build();
  bundle.config.mutable_encoder()->set_length_axis(length_axis);
  return bundle;
}

v1::Source Zeros(const Dims& dims, const std::string& dtype = "f32") {
  v1::Source source;
  int64_t count = 1;
  for (const int64_t dim : dims) {
    source.mutable_features()->add_shape(dim);
    count *= dim;
  }
  source.mutable_features()->set_dtype(dtype);
  source.mutable_features()->set_data(
      std::string(static_cast<size_t>(count * (dtype == "f64" ? 8 : 4)), '\0'));
  return source;
}

absl::StatusOr<v1::Decoded> DecodeAlone(const bundle::Bundle& bundle, const v1::Source& source) {
  BW_ASSIGN_OR_RETURN(const auto model, DecodeModel::Compile(bundle));
  BW_ASSIGN_OR_RETURN(const auto engine, Engine::Start({}));
  return engine->DecodeAndWait(model, source, {});
}

struct Axis {
  Dims declared;
  int told;  // 0: nothing
  int found;
  Dims source;
  int length;
};

TEST(LengthAxis, IsToldOrTheOnlyOneThatIsOpen) {
  for (const Axis& axis : std::vector<Axis>{
           {{-1, -1, 4}, 0, 1, {7, 4}, 7},
           {{-1, -1, -1}, 0, 1, {7, 4}, 7},
           {{-1, 4, -1}, 0, 2, {4, 7}, 7},
           {{-1, 1, 3, -1}, 0, 3, {1, 3, 9}, 9},
           {{-1, 1, -1, 3}, 0, 2, {1, 9, 3}, 9},
           {{-1, 1, -1, -1}, 3, 3, {1, 5, 9}, 9},
           {{-1, 1, -1, -1}, 2, 2, {1, 5, 9}, 5},
           {{-1, 1, 3, 6}, 3, 3, {1, 3, 6}, 6},
           {{-1, 8, 4}, 0, 1, {8, 4}, 8},
       }) {
    SCOPED_TRACE(ops::ToString(axis.declared));
    const bundle::Bundle bundle = FeatureBundle(axis.declared, axis.told);
    const auto model = DecodeModel::Compile(bundle);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ((*model)->Describe().source_length_axis(), axis.found);
    const auto decoded = DecodeAlone(bundle, Zeros(axis.source));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->source_length(), axis.length);
  }
}

TEST(LengthAxis, IsNotGuessed) {
  const auto error = [](const Dims& dims, int told) {
    return std::string(DecodeModel::Compile(FeatureBundle(dims, told)).status().message());
  };
  EXPECT_THAT(error({-1, 1, -1, -1}, 0),
              HasSubstr("encoder.length_axis: is not set, and 'image' [?, 1, ?, ?] leaves open"));
  EXPECT_THAT(error({-1, 1, 3, 6}, 0), HasSubstr("'image' [?, 1, 3, 6] leaves open"));
  EXPECT_THAT(error({-1, 1, 3, -1}, 4), HasSubstr("allowed are 1 to 3"));
}

// An export of an example with two sources serves none.
TEST(LengthAxis, ANumberOfSourcesThatIsFixedIsNamed) {
  EXPECT_THAT(
      std::string(DecodeModel::Compile(FeatureBundle({2, -1, 4}, 0)).status().message()),
      HasSubstr("'image' [2, ?, 4] is for 2 sources at a time alone: the export fixed axis 0"));
}

TEST(LengthAxis, MasksAreAsLongAsIt) {
  const auto decoded =
      DecodeAlone(FeatureBundle({-1, 1, 3, -1}, 0, /*masked=*/true), Zeros({1, 3, 9}));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->source_length(), 9);
}

// Messages show shapes as requests give them, without the axis of rows.
TEST(LengthAxis, FeaturesThatDoNotFit) {
  const bundle::Bundle bundle = FeatureBundle({-1, 1, 3, -1}, 0);
  const auto error = [&](const v1::Source& source) {
    const absl::Status status = DecodeAlone(bundle, source).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_EQ(error(Zeros({2, 3, 9})),
            "source.features.shape: [2, 3, 9]; the encoder takes 'image' f32[1, 3, ?]");
  EXPECT_EQ(error(Zeros({1, 1, 3, 9})),
            "source.features.shape: [1, 1, 3, 9]; the encoder takes 'image' f32[1, 3, ?]");
  EXPECT_EQ(error(Zeros({})), "source.features.shape: []; the encoder takes 'image' f32[1, 3, ?]");
  EXPECT_EQ(error(Zeros({1, 3, 9}, "i32")),
            "source.features.dtype: i32; the encoder takes 'image' f32[1, 3, ?]");
  // NumPy's type is rounded.
  EXPECT_TRUE(DecodeAlone(bundle, Zeros({1, 3, 9}, "f64")).ok());
  EXPECT_EQ(error(Zeros({1, 3, 0})), "source is empty");
  v1::Source text;
  text.set_text("word");
  EXPECT_EQ(error(text),
            "source.text: the encoder takes features, 'image' f32[1, 3, ?], not text or ids");
}

// The same with `picture`.
bundle::Bundle PictureBundle(const Dims& dims, int length_axis) {
  bundle::Bundle bundle = FeatureBundle(dims, length_axis);
  bundle.config.mutable_picture();
  return bundle;
}

// 45 x 23 pixels.
v1::Source Colour() {
  v1::Source source;
  source.set_picture(*ReadFile(BEAMWRIGHT_SOURCE_DIR "/tests/engine/picture/data/colour.png"));
  return source;
}

TEST(PictureSource, EachLayoutGetsItsInput) {
  struct Layout {
    Dims dims;
    int length_axis;
    ops::Shape input;
  };
  for (const Layout& layout : std::vector<Layout>{{{-1, 3, 12, -1}, 3, {1, 3, 12, 23}},
                                                  {{-1, 1, 12, -1}, 3, {1, 1, 12, 23}},
                                                  {{-1, 12, -1, 3}, 2, {1, 12, 23, 3}},
                                                  {{-1, 30, 12, 1}, 1, {1, 30, 12, 1}},
                                                  {{-1, 3, 12, 30}, 1, {1, 3, 12, 30}}}) {
    const auto model = DecodeModel::Compile(PictureBundle(layout.dims, layout.length_axis));
    ASSERT_TRUE(model.ok()) << model.status();
    const auto prepared = PrepareSource(**model, Colour());
    ASSERT_TRUE(prepared.ok()) << prepared.status();
    EXPECT_EQ(prepared->encoder_input->shape(), layout.input);
    EXPECT_EQ(prepared->source_length, layout.input[static_cast<size_t>(layout.length_axis)]);
  }
}

TEST(PictureSource, LimitsHoldBeforeAnythingIsDecoded) {
  bundle::Bundle bundle = PictureBundle({-1, 3, 12, -1}, 3);
  bundle.config.mutable_limits()->set_max_source_length(22);
  auto model = DecodeModel::Compile(bundle);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(PrepareSource(**model, Colour()).status().message(),
              HasSubstr("source.picture: is 23 pixels wide at a height of 12; at most 22"));
  EXPECT_EQ(PictureBytes(**model, Colour()), 45 * 23 * 4);
  bundle = PictureBundle({-1, 3, 12, -1}, 3);
  bundle.config.mutable_limits()->set_max_picture_pixels(45 * 23 - 1);
  model = DecodeModel::Compile(bundle);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(PrepareSource(**model, Colour()).status().message(),
              HasSubstr("source.picture: has 45 x 23 pixels; at most 1034 are allowed"));
  EXPECT_EQ(PictureBytes(**model, Colour()), 0);
}

TEST(PictureSource, AModelWithoutPictureSaysSo) {
  bundle::Bundle bundle = PictureBundle({-1, 3, 12, -1}, 3);
  bundle.config.clear_picture();
  const auto model = DecodeModel::Compile(bundle);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(PrepareSource(**model, Colour()).status().message(),
              HasSubstr("source.picture: the model's bundle does not say how pictures become"));
}

TEST(PictureSource, BundlesThatDoNotFitAreRefused) {
  const auto fault_of = [](const Dims& dims, auto set) {
    bundle::Bundle bundle = PictureBundle(dims, 3);
    set(*bundle.config.mutable_picture());
    return std::string(DecodeModel::Compile(bundle).status().message());
  };
  const auto nothing = [](v1::PictureConfig&) {};
  EXPECT_THAT(fault_of({-1, 3, -1, -1}, nothing), HasSubstr("picture.height: is not set"));
  EXPECT_THAT(fault_of({-1, -1, 12, -1}, nothing), HasSubstr("picture.channels: is not set"));
  EXPECT_THAT(fault_of({-1, 3, 12, -1}, [](auto& config) { config.set_height(48); }),
              HasSubstr("picture.height: 48; the encoder reads 12"));
  EXPECT_THAT(fault_of({-1, 5, 12, -1}, nothing), HasSubstr("picture.channels: the encoder reads"));
  EXPECT_THAT(fault_of({-1, 3, 12, -1},
                       [](auto& config) {
                         config.add_scale(1);
                         config.add_scale(1);
                       }),
              HasSubstr("picture.scale: has 2 numbers"));
}

}  // namespace
}  // namespace beamwright::engine
