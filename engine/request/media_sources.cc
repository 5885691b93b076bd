// Sources that are pictures or sound, as the tensors that an encoder reads. A picture's size is
// read from its head and checked before a pixel is decoded; PictureBytes says what the decoding
// will take, for the budget of requests. Features of sound are laid out as the encoder wants them:
// frames first, or the features of all frames by row (length axis 2).
#include "engine/request/media_sources.h"

#include <utility>

#include "engine/picture/picture_file.h"
#include "engine/sound/front_end.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"

namespace beamwright::engine {
namespace {

constexpr char kPictureField[] = "source.picture";

int64_t MostPixels(const DecodeModel& model) {
  constexpr int64_t kMostPixels = 1 << 24;
  const int64_t configured = model.config().limits().max_picture_pixels();
  return configured > 0 ? configured : kMostPixels;
}

// The head of a picture that the model may be asked for.
absl::StatusOr<picture::PictureHead> ReadAllowedHead(const DecodeModel& model,
                                                     absl::string_view file) {
  if (!model.parts().picture.has_value()) {
    return Invalid(
        "the model's bundle does not say how pictures become its encoder's input "
        "(picture)");
  }
  BW_ASSIGN_OR_RETURN(const picture::PictureHead head, picture::ReadHead(file));
  const int64_t most = MostPixels(model);
  if (head.width * head.height > most) {
    return Invalid("has ", head.width, " x ", head.height, " pixels; at most ", most,
                   " are allowed (limits.max_picture_pixels of the bundle)");
  }
  return head;
}

}  // namespace

int64_t PictureBytes(const DecodeModel& model, const v1::Source& source) {
  if (!source.has_picture()) {
    return 0;
  }
  const absl::StatusOr<picture::PictureHead> head = ReadAllowedHead(model, source.picture());
  return head.ok() ? picture::DecodeBytes(*head) : 0;
}

absl::StatusOr<ops::Tensor> PictureSource(const DecodeModel& model, absl::string_view file,
                                          int most_columns) {
  const absl::StatusOr<picture::PictureHead> head = ReadAllowedHead(model, file);
  if (!head.ok()) {
    return status::AtField(head.status(), kPictureField);
  }
  const picture::FrontEnd& front_end = *model.parts().picture;
  const int64_t columns = front_end.Columns(head->displayed_width(), head->displayed_height());
  if (front_end.config().width() == 0 && columns > most_columns) {
    return status::InvalidField(kPictureField, "is ", columns, " pixels wide at a height of ",
                                front_end.config().height(), "; at most ", most_columns,
                                " are allowed");
  }
  absl::StatusOr<picture::Picture> picture = picture::Decode(file, *head);
  if (!picture.ok()) {
    return status::AtField(picture.status(), kPictureField);
  }
  return front_end.Values(*std::move(picture));
}

ops::Tensor SoundSource(const DecodeModel& model, std::vector<float> features) {
  const sound::FrontEnd& sound = *model.parts().sound;
  const EncoderPart& encoder = *model.parts().encoder();
  sound.Complete(features);
  const int64_t width = sound.width();
  const auto frames = static_cast<int64_t>(features.size()) / width;
  if (sound.is_samples()) {
    return ops::Tensor::Of<float>({1, frames}, features);
  }
  if (encoder.length_axis == 1 || encoder.streaming.has_value()) {
    return ops::Tensor::Of<float>({1, frames, width}, features);
  }
  ops::Tensor turned(ops::DType::kF32, {1, width, frames});
  float* const data = turned.mutable_data<float>();
  for (int64_t frame = 0; frame < frames; ++frame) {
    for (int64_t i = 0; i < width; ++i) {
      data[i * frames + frame] = features[static_cast<size_t>(frame * width + i)];
    }
  }
  return turned;
}

}  // namespace beamwright::engine
