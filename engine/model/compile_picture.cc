// How pictures become the input of an encoder, from the bundle's configuration and the encoder's
// shape. The encoder's source has rows, channels, height and width; which axis is which follows
// from the number of channels (1 or 3) and from the axis of the length (PictureAxes). Extents that
// the encoder fixes fill in what the configuration leaves open, and must agree with what it says.
#include "engine/model/compile_picture.h"

#include <utility>

#include "engine/status/fault.h"
#include "ops/base/status.h"

namespace beamwright::engine {
namespace {

// Sets a field that is 0 to the encoder's extent, which may be open still.
absl::Status SetExtent(const char* field, int64_t extent, int most, int& value) {
  if (extent == ops::PartialShape::kDynamic) {
    return absl::OkStatus();
  }
  if (value != 0 && value != extent) {
    return status::InvalidField(field, value, "; the encoder reads ", extent);
  }
  if (extent < 1 || extent > most) {
    return status::InvalidField(field, "the encoder reads ", extent, "; at most ", most,
                                " are supported");
  }
  value = static_cast<int>(extent);
  return absl::OkStatus();
}

absl::StatusOr<picture::FrontEnd> FrontEndOf(const v1::PictureConfig& config,
                                             const EncoderPart& encoder) {
  constexpr int kMostHeight = 4096;
  constexpr int kMostWidth = 65500;
  constexpr int kMostChannels = 3;
  const ops::ValueInfo& info = encoder.source_info();
  if (info.dtype != ops::DType::kF32 || !info.shape.has_rank() || info.shape.rank() != 4) {
    return Invalid("the encoder reads ", ops::Name(info.dtype), info.shape.ToString(),
                   "; pictures are f32 of four axes: rows, channels, height and width");
  }
  const picture::Axes axes = PictureAxes(info.shape, config.channels(), encoder.length_axis);
  int channels = config.channels();
  int height = config.height();
  int width = config.width();
  BW_RETURN_IF_ERROR(SetExtent("channels", info.shape.dim(axes.channels), kMostChannels, channels));
  BW_RETURN_IF_ERROR(SetExtent("height", info.shape.dim(axes.height), kMostHeight, height));
  BW_RETURN_IF_ERROR(SetExtent("width", info.shape.dim(axes.width), kMostWidth, width));
  if (channels == 0 || height == 0) {
    return status::InvalidField(
        channels == 0 ? "channels" : "height",
        "is not set, and the encoder leaves it open: ", info.shape.ToString());
  }
  v1::PictureConfig complete = config;
  complete.set_channels(channels);
  complete.set_height(height);
  complete.set_width(width);
  return picture::FrontEnd::Create(complete, axes);
}

}  // namespace

picture::Axes PictureAxes(const ops::PartialShape& shape, int channels, int length_axis) {
  const auto may_be_channels = [&](int axis) {
    const int64_t extent = shape.dim(axis);
    return axis != length_axis && (channels > 0 ? extent == channels : extent == 1 || extent == 3);
  };
  picture::Axes axes;
  axes.channels = may_be_channels(1) || !may_be_channels(3) ? 1 : 3;
  const int first = axes.channels == 1 ? 2 : 1;
  const int second = axes.channels == 1 ? 3 : 2;
  axes.width = length_axis == first ? first : second;
  axes.height = length_axis == first ? second : first;
  return axes;
}

absl::StatusOr<std::optional<picture::FrontEnd>> CompilePicture(const v1::ModelConfig& config,
                                                                const EncoderPart* encoder) {
  if (!config.has_picture()) {
    return std::nullopt;
  }
  if (encoder == nullptr || encoder->streaming.has_value()) {
    return status::InvalidField("picture", encoder == nullptr
                                               ? "the model has no encoder to read pictures"
                                               : "the encoder reads chunk by chunk");
  }
  absl::StatusOr<picture::FrontEnd> made = FrontEndOf(config.picture(), *encoder);
  if (!made.ok()) {
    return status::WithFields(made.status(), [](absl::string_view field) {
      return field.empty() ? std::string("picture") : absl::StrCat("picture.", field);
    });
  }
  return std::make_optional(*std::move(made));
}

}  // namespace beamwright::engine
