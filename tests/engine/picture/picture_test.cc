// Pictures: pixels and encoder inputs are those of OpenCV and Pillow (make_references.py) within
// one grey level, and files of any content are refused without harm.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/picture/front_end.h"
#include "engine/picture/picture_file.h"
#include "ops/base/file.h"
#include "ops/numpy/npz.h"

namespace beamwright::picture {
namespace {

using ::testing::HasSubstr;

const std::string& Folder() {
  static const std::string folder = BEAMWRIGHT_SOURCE_DIR "/tests/engine/picture/data/";
  return folder;
}

const ops::TensorMap& References() {
  static const ops::TensorMap references = *ops::ReadNpz(Folder() + "references.npz");
  return references;
}

std::string File(const std::string& name) { return *ReadFile(Folder() + name); }

absl::StatusOr<Picture> DecodeFile(absl::string_view file) {
  const absl::StatusOr<PictureHead> head = ReadHead(file);
  return head.ok() ? Decode(file, *head) : head.status();
}

Picture FromReference(const std::string& name) {
  const ops::Tensor& reference = References().at(name);
  Picture picture;
  picture.height = static_cast<int>(reference.dim(0));
  picture.width = static_cast<int>(reference.dim(1));
  picture.channels = reference.rank() == 3 ? static_cast<int>(reference.dim(2)) : 1;
  const auto* const values = reference.data<uint8_t>();
  picture.pixels.assign(values, values + reference.num_elements());
  return picture;
}

// The largest difference; 255 for another size.
int Difference(const Picture& a, const Picture& b) {
  if (a.width != b.width || a.height != b.height || a.channels != b.channels) {
    return 255;
  }
  int most = 0;
  for (size_t i = 0; i < a.pixels.size(); ++i) {
    most = std::max(most, std::abs(a.pixels[i] - b.pixels[i]));
  }
  return most;
}

Picture AsColour(Picture picture) {
  if (picture.channels == 1) {
    std::vector<uint8_t> pixels;
    for (const uint8_t level : picture.pixels) {
      pixels.insert(pixels.end(), 3, level);
    }
    picture.pixels = std::move(pixels);
    picture.channels = 3;
  }
  return picture;
}

TEST(PictureFileTest, HasThePixelsOfPillow) {
  int files = 0;
  for (const auto& [name, reference] : References()) {
    if (!absl::StrContains(name, ".png") && !absl::StrContains(name, ".jpg")) {
      continue;
    }
    ++files;
    const absl::StatusOr<Picture> picture = DecodeFile(File(name));
    ASSERT_TRUE(picture.ok()) << name << ": " << picture.status();
    EXPECT_LE(Difference(AsColour(*picture), FromReference(name)), 1) << name;
  }
  EXPECT_EQ(files, 21);
}

TEST(PictureFileTest, RefusesCutOffAndForeignFiles) {
  for (const std::string name : {"colour.png", "interlaced.png", "colour.jpg", "progressive.jpg"}) {
    const std::string file = File(name);
    for (size_t size = 0; size + 40 < file.size(); size += 1 + size / 20) {
      EXPECT_EQ(DecodeFile(absl::string_view(file).substr(0, size)).status().code(),
                absl::StatusCode::kInvalidArgument)
          << name << " " << size;
    }
  }
  EXPECT_THAT(DecodeFile("GIF89a").status().message(), HasSubstr("neither a PNG nor a JPEG"));
  EXPECT_THAT(DecodeFile("").status().message(), HasSubstr("has no bytes"));
}

// Every byte is changed once: nothing crashes (the sanitizers look), and whatever is decoded has
// the size of its head.
TEST(PictureFileTest, DamagedFilesDoNoHarm) {
  std::mt19937 random(41);
  for (const std::string name : {"palette.png", "alpha.png", "progressive.jpg", "turned_6.jpg"}) {
    const std::string file = File(name);
    for (size_t at = 0; at < file.size(); ++at) {
      std::string damaged = file;
      damaged[at] = static_cast<char>(random());
      const absl::StatusOr<PictureHead> head = ReadHead(damaged);
      if (!head.ok() || head->width * head->height > 1 << 20) {
        continue;
      }
      const absl::StatusOr<Picture> picture = Decode(damaged, *head);
      if (picture.ok()) {
        EXPECT_EQ(picture->pixels.size(), static_cast<size_t>(picture->width) *
                                              static_cast<size_t>(picture->height) *
                                              static_cast<size_t>(picture->channels));
      }
    }
  }
}

// Nothing is allocated for the size that a head claims: it is known before.
TEST(PictureFileTest, SaysItsSizeAndCostBeforeItIsDecoded) {
  std::string file = File("colour.png");
  file[16] = 0x00;
  file[17] = 0x00;
  file[18] = static_cast<char>(0xFF);  // 65,280 + 45 columns
  absl::StatusOr<PictureHead> head = ReadHead(file);
  ASSERT_TRUE(head.ok());
  EXPECT_EQ(head->width, 65325);
  EXPECT_EQ(DecodeBytes(*head), 65325 * 23 * 4);
  file[17] = 0x01;
  EXPECT_THAT(ReadHead(file).status().message(), HasSubstr("each side may have 1 to 65500"));
  head = ReadHead(File("progressive.jpg"));
  ASSERT_TRUE(head.ok());
  EXPECT_EQ(DecodeBytes(*head), 45 * 23 * (3 + 6));  // pixels and coefficients
  head = ReadHead(File("turned_6.jpg"));
  ASSERT_TRUE(head.ok());
  EXPECT_EQ(head->displayed_width(), 23);
  EXPECT_EQ(DecodeBytes(*head), 45 * 23 * (3 + 3));
}

TEST(ResizeTest, EqualsOpenCvAndPillow) {
  const Picture colour = FromReference("colour.png");
  const std::vector<std::pair<std::string, v1::PictureFilter>> filters = {
      {"linear", v1::PICTURE_FILTER_LINEAR},
      {"bilinear", v1::PICTURE_FILTER_PILLOW_BILINEAR},
      {"bicubic", v1::PICTURE_FILTER_PILLOW_BICUBIC},
      {"lanczos", v1::PICTURE_FILTER_PILLOW_LANCZOS}};
  for (const auto& [name, filter] : filters) {
    for (const std::string size : {"45x16", "20x23", "13x7", "71x48", "22x11", "1x1"}) {
      const Picture reference = FromReference(absl::StrCat(name, " ", size));
      const Picture resized = Resize(colour, reference.width, reference.height, filter);
      EXPECT_LE(Difference(resized, reference), filter == v1::PICTURE_FILTER_LINEAR ? 1 : 0)
          << name << " " << size;
    }
  }
}

TEST(ResizeTest, GreyIsPillowsLuma) {
  Picture colour = FromReference("colour.png");
  ToGrey(colour);
  EXPECT_EQ(Difference(colour, FromReference("luma")), 0);
}

v1::PictureConfig PaddleConfig() {
  v1::PictureConfig config;
  config.set_height(12);
  config.set_channels(3);
  config.set_order(v1::PICTURE_ORDER_BGR);
  config.add_mean(0.5F);
  config.add_scale(2);
  config.set_min_width(40);
  return config;
}

TEST(PictureFrontEndTest, EqualsPaddleOcr) {
  constexpr float kLevel = 2.0F / 255;  // of grey, after mean and scale
  const absl::StatusOr<FrontEnd> front_end = FrontEnd::Create(PaddleConfig(), Axes());
  ASSERT_TRUE(front_end.ok()) << front_end.status();
  Picture picture = FromReference("colour.png");
  for (const std::string name : {"narrow", "wide"}) {
    const ops::Tensor& reference = References().at("paddle " + name);
    const ops::Tensor values = front_end->Values(picture);
    ASSERT_EQ(values.shape(), ops::Shape({1, 3, 12, reference.dim(2)})) << name;
    EXPECT_EQ(front_end->Columns(picture.width, picture.height), reference.dim(2));
    for (int64_t i = 0; i < reference.num_elements(); ++i) {
      ASSERT_NEAR(values.data<float>()[i], reference.data<float>()[i], 1.01F * kLevel)
          << name << " " << i;
    }
    picture.height = 9;  // the wide one is its upper part
    picture.pixels.resize(static_cast<size_t>(45 * 9 * 3));
  }
}

// 2 x 1 pixels, each field with another value.
TEST(PictureFrontEndTest, FollowsEachField) {
  const Picture two{2, 1, 3, {10, 20, 30, 40, 50, 60}};
  v1::PictureConfig config;
  config.set_height(1);
  config.set_channels(3);
  config.set_width(3);
  config.set_keep_ratio(true);
  config.add_scale(255);
  const auto values_of = [&](const Axes& axes) {
    const ops::Tensor tensor = FrontEnd::Create(config, axes)->Values(two);
    std::vector<int> values;
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      values.push_back(static_cast<int>(std::lround(tensor.data<float>()[i])));
    }
    return values;
  };
  using Values = std::vector<int>;
  EXPECT_EQ(values_of({1, 2, 3}), Values({10, 40, 0, 20, 50, 0, 30, 60, 0}));
  EXPECT_EQ(values_of({3, 1, 2}), Values({10, 20, 30, 40, 50, 60, 0, 0, 0}));
  EXPECT_EQ(values_of({3, 2, 1}), Values({10, 20, 30, 40, 50, 60, 0, 0, 0}));
  config.set_order(v1::PICTURE_ORDER_BGR);
  config.set_pad(v1::PICTURE_PAD_EDGE);
  EXPECT_EQ(values_of({1, 2, 3}), Values({30, 60, 60, 20, 50, 50, 10, 40, 40}));
  config.set_pad(v1::PICTURE_PAD_WHITE);
  config.add_mean(0);
  config.add_mean(1);
  config.add_mean(0);
  EXPECT_EQ(values_of({1, 2, 3}), Values({30, 60, 255, -235, -205, 0, 10, 40, 255}));
  config.clear_mean();
  config.set_keep_ratio(false);
  config.set_channels(1);
  EXPECT_EQ(values_of({1, 2, 3}), Values({18, 33, 48}));
  config.set_width(0);
  config.set_min_width(0);
  EXPECT_EQ(values_of({1, 2, 3}), Values({18, 48}));
}

TEST(PictureFrontEndTest, NamesTheFieldThatIsWrong) {
  const auto fault_of = [](auto set) {
    v1::PictureConfig config = PaddleConfig();
    set(config);
    return std::string(FrontEnd::Create(config, Axes()).status().message());
  };
  EXPECT_THAT(fault_of([](auto& config) { config.set_channels(2); }), HasSubstr("channels: 2"));
  EXPECT_THAT(fault_of([](auto& config) { config.add_mean(1); }),
              HasSubstr("mean: has 2 numbers; one, or one for each of 3 channels"));
  EXPECT_THAT(fault_of([](auto& config) { config.set_scale(0, INFINITY); }),
              HasSubstr("scale: inf is not finite"));
  EXPECT_THAT(fault_of([](auto& config) { config.set_width(8); }), HasSubstr("min_width: is set"));
}

}  // namespace
}  // namespace beamwright::picture
