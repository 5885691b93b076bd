#include "tools/bundle/encoder_picture.h"

#include "absl/strings/str_cat.h"
#include "engine/model/compile_picture.h"
#include "ops/graph/trace.h"
#include "tools/graph/ports.h"

namespace beamwright::tools {
namespace {

constexpr int64_t kMostHeight = 1024;

// Frames of mel bins with an axis for the channel of a convolution.
bool MayBeSound(const picture::Axes& axes, int64_t height) {
  return axes.channels == 1 && (axes.width < axes.height || height == 80 || height == 128);
}

void SetRange(float mean, float scale, v1::PictureConfig& picture) {
  picture.add_mean(mean);
  picture.add_scale(scale);
}

// Fills `picture` by the package that such an input is known from; returns what it says.
std::string Guess(const ops::PartialShape& shape, const picture::Axes& axes,
                  v1::PictureConfig& picture) {
  const int64_t channels = shape.dim(axes.channels);
  const int64_t height = shape.dim(axes.height);
  const bool is_open = shape.dim(axes.width) == ops::PartialShape::kDynamic;
  const bool is_first = axes.channels == 1;
  if (is_first && channels == 3 && is_open && (height == 48 || height == 32)) {
    picture.set_order(v1::PICTURE_ORDER_BGR);
    SetRange(0.5F, 2, picture);
    picture.set_min_width(320);
    return "blue first, levels from -1 to 1, as PaddleOCR's recognisers read them";
  }
  if (is_first && channels == 1 && is_open && height == 64) {
    picture.set_filter(v1::PICTURE_FILTER_PILLOW_LANCZOS);
    return "grey, levels from 0 to 1, as ddddocr reads them";
  }
  if (is_first && channels == 1) {
    SetRange(0.5F, 2, picture);
    picture.set_filter(v1::PICTURE_FILTER_PILLOW_BILINEAR);
    return "grey, levels from -1 to 1, as crnn.pytorch reads them";
  }
  return absl::StrCat(channels == 1 ? "grey" : "red first", ", levels from 0 to 1");
}

}  // namespace

void AddPicture(const ops::Graph& encoder, v1::ModelConfig& config,
                std::vector<std::string>& reasons) {
  const ops::Ports inputs = ops::InputPorts(encoder);
  const std::string& name = config.encoder().input();
  const ops::Port* const source =
      name.empty() && inputs.size() == 1 ? &inputs[0] : ops::FindPort(inputs, name);
  if (source == nullptr || source->info.dtype != ops::DType::kF32 ||
      !source->info.shape.has_rank() || source->info.shape.rank() != 4 || config.has_sound() ||
      config.encoder().has_streaming()) {
    return;
  }
  const ops::PartialShape& shape = source->info.shape;
  const int length_axis = config.encoder().length_axis() > 0 ? config.encoder().length_axis()
                                                             : ops::FindLengthAxis(shape);
  const picture::Axes axes = engine::PictureAxes(shape, 0, length_axis);
  const int64_t channels = shape.dim(axes.channels);
  const int64_t height = shape.dim(axes.height);
  if ((channels != 1 && channels != 3) || height < 1 || height > kMostHeight ||
      (channels == 1 && MayBeSound(axes, height))) {
    return;
  }
  const std::string found = Guess(shape, axes, *config.mutable_picture());
  reasons.push_back(absl::StrCat("requests may bring pictures, PNG or JPEG: ", found,
                                 "; check `picture` in the bundle against the code that "
                                 "prepares pictures for this model"));
}

}  // namespace beamwright::tools
