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
#include "engine/picture/front_end.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include "engine/picture/resize.h"
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

}  // namespace beamwright::picture
