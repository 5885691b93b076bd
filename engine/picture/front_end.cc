// Turns a picture into the tensor that a model's encoder reads:
//
// 1. ExtentsOf: the picture is scaled to the model's height. Its width follows from its ratio, or
//    is the model's fixed width, of which the picture covers a part if its ratio is kept.
// 2. Values resizes the picture, and looks up each level of each channel in a table that Create
//    made: (level / 255 - mean) * scale.
// 3. Columns that the picture does not cover are filled with 0, white, or the last column's value
//    (Filling).
//
// Strides follow from the places of the axes of channels, height and width (axes_), so that any
// layout of the encoder is written at once.
//
// Example: a picture of 200 x 40 pixels for a model of height 48 has a width of 240. With min_width
// 320 columns 240 to 319 are filled; the tensor is [1, 3, 48, 320]. A grey level of 255 with mean
// 0.5 and scale 2 is (1 - 0.5) * 2 = 1, a level of 0 is -1.
//
// Resizing is at the end: it must give the pixels of the library that a model was trained with, so
// both libraries' integer arithmetic is repeated here.
#include "engine/picture/front_end.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <string>
#include <utility>

#include "engine/status/fault.h"
#include "ops/base/status.h"

namespace beamwright::picture {
namespace {

// `numbers`: none, one for all channels, or one a channel.
absl::StatusOr<float> NumberOf(const google::protobuf::RepeatedField<float>& numbers, int channel,
                               int channels, const char* field, float otherwise) {
  if (numbers.empty()) {
    return otherwise;
  }
  if (numbers.size() != 1 && numbers.size() != channels) {
    return status::InvalidField(field, "has ", numbers.size(), " numbers; one, or one for each of ",
                                channels, " channels");
  }
  const float number = numbers.Get(numbers.size() == 1 ? 0 : channel);
  return std::isfinite(number) ? absl::StatusOr<float>(number)
                               : status::InvalidField(field, number, " is not finite");
}

}  // namespace

absl::StatusOr<FrontEnd> FrontEnd::Create(const v1::PictureConfig& config, const Axes& axes) {
  if (config.channels() != 1 && config.channels() != 3) {
    return status::InvalidField("channels", config.channels(),
                                "; pictures have 1 (grey) or 3 (colour)");
  }
  if (config.width() > 0 && config.min_width() > 0) {
    return status::InvalidField("min_width", "is set, and so is the width of all pictures, ",
                                config.width());
  }
  FrontEnd front_end(config, axes);
  for (int channel = 0; channel < config.channels(); ++channel) {
    BW_ASSIGN_OR_RETURN(const float mean,
                        NumberOf(config.mean(), channel, config.channels(), "mean", 0));
    BW_ASSIGN_OR_RETURN(const float scale,
                        NumberOf(config.scale(), channel, config.channels(), "scale", 1));
    std::array<float, 256>& values = front_end.values_.emplace_back();
    for (size_t level = 0; level < values.size(); ++level) {
      values[level] = (static_cast<float>(level) / 255.0F - mean) * scale;
    }
  }
  return front_end;
}

FrontEnd::Extents FrontEnd::ExtentsOf(int64_t width, int64_t height) const {
  const double ratio = static_cast<double>(width) / static_cast<double>(height);
  const auto at_ratio = [&](double columns) { return std::max<int64_t>(std::llround(columns), 1); };
  const int64_t least = at_ratio(std::ceil(config_.height() * ratio));
  if (config_.width() > 0) {
    const int64_t all = config_.width();
    return {config_.keep_ratio() ? std::min(least, all) : all, all};
  }
  // As PaddleOCR rounds: up where columns are filled up, else down.
  const int64_t all =
      std::max<int64_t>(at_ratio(std::floor(config_.height() * ratio)), config_.min_width());
  return {std::min(least, all), all};
}

int64_t FrontEnd::Columns(int64_t width, int64_t height) const {
  return ExtentsOf(width, height).all;
}

float FrontEnd::Filling(size_t channel, float last) const {
  switch (config_.pad()) {
    case v1::PICTURE_PAD_WHITE:
      return values_[channel][255];
    case v1::PICTURE_PAD_EDGE:
      return last;
    default:
      return 0;
  }
}

ops::Tensor FrontEnd::Values(Picture picture) const {
  const Extents extents = ExtentsOf(picture.width, picture.height);
  if (config_.channels() == 1) {
    ToGrey(picture);
  }
  const Picture resized =
      Resize(picture, static_cast<int>(extents.covered), config_.height(), config_.filter());
  ops::Shape shape(4, 1);
  shape[static_cast<size_t>(axes_.channels)] = config_.channels();
  shape[static_cast<size_t>(axes_.height)] = config_.height();
  shape[static_cast<size_t>(axes_.width)] = extents.all;
  const auto stride_of = [&shape](int axis) {
    int64_t stride = 1;
    for (size_t i = static_cast<size_t>(axis) + 1; i < shape.size(); ++i) {
      stride *= shape[i];
    }
    return stride;
  };
  const int64_t column_stride = stride_of(axes_.width);
  ops::Tensor tensor(ops::DType::kF32, shape);
  float* const data = tensor.mutable_data<float>();
  const int own = resized.channels;  // 1 for grey files also where the encoder reads three
  for (int channel = 0; channel < config_.channels(); ++channel) {
    const int from = own == 1                                   ? 0
                     : config_.order() == v1::PICTURE_ORDER_BGR ? 2 - channel
                                                                : channel;
    const auto values = static_cast<size_t>(channel);
    for (int64_t y = 0; y < config_.height(); ++y) {
      const uint8_t* pixel = resized.pixels.data() + y * extents.covered * own + from;
      float* out = data + channel * stride_of(axes_.channels) + y * stride_of(axes_.height);
      float value = 0;
      for (int64_t x = 0; x < extents.covered; ++x, pixel += own, out += column_stride) {
        value = values_[values][*pixel];
        *out = value;
      }
      const float filling = Filling(values, value);
      for (int64_t x = extents.covered; x < extents.all; ++x, out += column_stride) {
        *out = filling;
      }
    }
  }
  return tensor;
}

// Both libraries compute in integers: OpenCV (imgproc/src/resize.cpp) with weights of 11 bits and
// one rounding, Pillow (src/libImaging/Resample.c) with weights of 22 bits and a rounding to 8 bits
// after the horizontal pass.

namespace {

const uint8_t* RowOf(const Picture& picture, int row) {
  return picture.pixels.data() + static_cast<size_t>(row) * static_cast<size_t>(picture.width) *
                                     static_cast<size_t>(picture.channels);
}

// OpenCV: where an output position lies between two input positions.
struct Between {
  int first = 0;
  int second = 0;
  std::array<int, 2> weights = {};  // of 2048
};

// The centre of output pixel i lies at (i + 0.5) * scale - 0.5 of the input, between two input
// pixels whose weights add up to 2048. Twice as wide, from 2 to 4: pixel 1 lies at 0.25, so its
// weights are 1536 and 512.
std::vector<Between> PlacesBetween(int from, int to) {
  constexpr float kOne = 2048;
  std::vector<Between> places(static_cast<size_t>(to));
  const double scale = 1.0 / (static_cast<double>(to) / from);
  for (int i = 0; i < to; ++i) {
    auto part = static_cast<float>((i + 0.5) * scale - 0.5);
    int first = static_cast<int>(std::floor(part));
    part -= static_cast<float>(first);
    if (first < 0) {
      first = 0;
      part = 0;
    }
    if (first >= from - 1) {
      first = from - 1;
      part = 0;
    }
    places[static_cast<size_t>(i)] = {first,
                                      std::min(first + 1, from - 1),
                                      {static_cast<int>(std::lrint((1 - part) * kOne)),
                                       static_cast<int>(std::lrint(part * kOne))}};
  }
  return places;
}

Picture ResizeLinear(const Picture& picture, int width, int height) {
  const int channels = picture.channels;
  Picture result{width, height, channels, {}};
  result.pixels.reserve(static_cast<size_t>(width * static_cast<int64_t>(height) * channels));
  const std::vector<Between> columns = PlacesBetween(picture.width, width);
  const auto row_at = [&](int row) {
    std::vector<int> values;
    values.reserve(static_cast<size_t>(width) * static_cast<size_t>(channels));
    const uint8_t* const from = RowOf(picture, row);
    for (const Between& place : columns) {
      for (int channel = 0; channel < channels; ++channel) {
        values.push_back(from[place.first * channels + channel] * place.weights[0] +
                         from[place.second * channels + channel] * place.weights[1]);
      }
    }
    return values;
  };
  for (const Between& place : PlacesBetween(picture.height, height)) {
    const std::vector<int> first = row_at(place.first);
    const std::vector<int> second = row_at(place.second);
    for (size_t i = 0; i < first.size(); ++i) {
      const int sum = ((place.weights[0] * (first[i] >> 4)) >> 16) +
                      ((place.weights[1] * (second[i] >> 4)) >> 16);
      result.pixels.push_back(static_cast<uint8_t>((sum + 2) >> 2));
    }
  }
  return result;
}

// Pillow: the input positions that an output position reads.
struct Window {
  int begin = 0;
  std::vector<int> weights;  // of 2^kWeightBits
};
constexpr int kWeightBits = 32 - 8 - 2;

double Sinc(double x) {
  x *= std::numbers::pi;
  return x == 0 ? 1 : std::sin(x) / x;
}

double WeightAt(v1::PictureFilter filter, double x) {
  x = std::fabs(x);
  if (filter == v1::PICTURE_FILTER_PILLOW_BILINEAR) {
    return x < 1 ? 1 - x : 0;
  }
  if (filter == v1::PICTURE_FILTER_PILLOW_LANCZOS) {
    return x < 3 ? Sinc(x) * Sinc(x / 3) : 0;
  }
  constexpr double kA = -0.5;
  return x < 1   ? ((kA + 2) * x - (kA + 3)) * x * x + 1
         : x < 2 ? (((x - 5) * x + 8) * x - 4) * kA
                 : 0;
}

// A filter is as wide as its kind says, and stretched by the scale where a picture becomes smaller,
// so that every input pixel counts. Weights are normalised, then rounded to integers.
std::vector<Window> WindowsOf(v1::PictureFilter filter, int from, int to) {
  const double scale = static_cast<double>(from) / to;
  const double stretch = std::max(scale, 1.0);
  const double support = stretch * (filter == v1::PICTURE_FILTER_PILLOW_BILINEAR  ? 1
                                    : filter == v1::PICTURE_FILTER_PILLOW_BICUBIC ? 2
                                                                                  : 3);
  std::vector<Window> windows(static_cast<size_t>(to));
  std::vector<double> weights;
  for (int i = 0; i < to; ++i) {
    Window& window = windows[static_cast<size_t>(i)];
    const double center = (i + 0.5) * scale;
    window.begin = std::max(static_cast<int>(center - support + 0.5), 0);
    const int end = std::min(static_cast<int>(center + support + 0.5), from);
    weights.clear();
    double sum = 0;
    for (int at = window.begin; at < end; ++at) {
      weights.push_back(WeightAt(filter, (at - center + 0.5) / stretch));
      sum += weights.back();
    }
    for (const double weight : weights) {
      const double share = (sum == 0 ? weight : weight / sum) * (1 << kWeightBits);
      window.weights.push_back(static_cast<int>(share < 0 ? share - 0.5 : share + 0.5));
    }
  }
  return windows;
}

uint8_t ToByte(int sum) { return static_cast<uint8_t>(std::clamp(sum >> kWeightBits, 0, 255)); }

// A row of the input as a row of the result's width.
void ResizeRow(const uint8_t* from, int channels, const std::vector<Window>& columns,
               std::vector<uint8_t>& row) {
  row.clear();
  for (const Window& window : columns) {
    for (int channel = 0; channel < channels; ++channel) {
      int sum = 1 << (kWeightBits - 1);
      const uint8_t* value = from + window.begin * channels + channel;
      for (const int weight : window.weights) {
        sum += *value * weight;
        value += channels;
      }
      row.push_back(ToByte(sum));
    }
  }
}

// Each row of the input is resized once and added to all output rows that read it, so memory does
// not grow with the input.
Picture ResizePillow(const Picture& picture, int width, int height, v1::PictureFilter filter) {
  const int channels = picture.channels;
  const auto row_size = static_cast<size_t>(width) * static_cast<size_t>(channels);
  std::vector<int> sums(row_size * static_cast<size_t>(height), 1 << (kWeightBits - 1));
  const std::vector<Window> columns = WindowsOf(filter, picture.width, width);
  const std::vector<Window> rows = WindowsOf(filter, picture.height, height);
  std::vector<uint8_t> row;
  size_t first = 0;  // of the output rows that read input row y
  for (int y = 0; y < picture.height; ++y) {
    const uint8_t* const from = RowOf(picture, y);
    if (picture.width == width) {  // Pillow leaves out a pass that changes no extent
      row.assign(from, from + row_size);
    } else {
      ResizeRow(from, channels, columns, row);
    }
    const auto end_of = [&rows](size_t i) {
      return rows[i].begin + static_cast<int>(rows[i].weights.size());
    };
    while (first < rows.size() && end_of(first) <= y) {
      ++first;
    }
    for (size_t i = first; i < rows.size() && rows[i].begin <= y; ++i) {
      const int weight = rows[i].weights[static_cast<size_t>(y - rows[i].begin)];
      for (size_t at = 0; at < row_size; ++at) {
        sums[i * row_size + at] += row[at] * weight;
      }
    }
  }
  Picture result{width, height, channels, {}};
  result.pixels.reserve(sums.size());
  for (const int sum : sums) {
    result.pixels.push_back(ToByte(sum));
  }
  return result;
}

}  // namespace

// L = 0.299 R + 0.587 G + 0.114 B in 16 bits, rounded: Pillow's weights.
void ToGrey(Picture& picture) {
  if (picture.channels == 1) {
    return;
  }
  const size_t count = picture.pixels.size() / 3;
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* const pixel = picture.pixels.data() + 3 * i;
    picture.pixels[i] = static_cast<uint8_t>(
        (pixel[0] * 19595 + pixel[1] * 38470 + pixel[2] * 7471 + 0x8000) >> 16);
  }
  picture.pixels.resize(count);
  picture.channels = 1;
}

Picture Resize(const Picture& picture, int width, int height, v1::PictureFilter filter) {
  if (picture.width == width && picture.height == height) {
    return picture;
  }
  return filter == v1::PICTURE_FILTER_LINEAR ? ResizeLinear(picture, width, height)
                                             : ResizePillow(picture, width, height, filter);
}

Axes PictureAxes(const ops::PartialShape& shape, int channels, int length_axis) {
  const auto may_be_channels = [&](int axis) {
    const int64_t extent = shape.dim(axis);
    return axis != length_axis && (channels > 0 ? extent == channels : extent == 1 || extent == 3);
  };
  Axes axes;
  axes.channels = may_be_channels(1) || !may_be_channels(3) ? 1 : 3;
  const int first = axes.channels == 1 ? 2 : 1;
  const int second = axes.channels == 1 ? 3 : 2;
  axes.width = length_axis == first ? first : second;
  axes.height = length_axis == first ? second : first;
  return axes;
}

}  // namespace beamwright::picture
