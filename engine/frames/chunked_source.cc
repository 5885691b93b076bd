// Features of a source that an encoder reads chunk by chunk: `chunk` frames for each run, of which
// the next run begins `shift` frames later. After the last features come `tail` frames of silence,
// for encoders that look ahead. What lies before the next chunk is dropped when states advance.
#include "engine/frames/chunked_source.h"

#include <algorithm>
#include <utility>

namespace beamwright::engine {

void ChunkedSource::Add(const ops::Tensor& piece) {
  const auto first = piece.data<float>();
  features_.insert(features_.end(), first, first + piece.num_elements());
  num_features_ += piece.dim(1);
}

// A whole chunk of features, or what is left of them once the source is complete.
bool ChunkedSource::has_chunk() const {
  return next() + streaming_.chunk <= num_features_ || (is_complete_ && !is_exhausted());
}

bool ChunkedSource::is_exhausted() const {
  return is_complete_ && next() >= num_features_ + streaming_.tail;
}

void ChunkedSource::CopyChunk(float* to) const {
  const int64_t chunk = streaming_.chunk;
  const int64_t width = streaming_.width;
  const int64_t there =
      std::min(chunk, static_cast<int64_t>(features_.size()) / width);  // the rest is silence
  if (!streaming_.width_first) {
    std::copy_n(features_.begin(), there * width, to);
    std::fill(to + there * width, to + chunk * width, streaming_.silence);
    return;
  }
  for (int64_t i = 0; i < width; ++i) {
    for (int64_t frame = 0; frame < chunk; ++frame) {
      to[i * chunk + frame] =
          frame < there ? features_[static_cast<size_t>(frame * width + i)] : streaming_.silence;
    }
  }
}

void ChunkedSource::Advance(StreamStates states) {
  states_ = std::move(states);
  const int64_t read =
      std::min(streaming_.shift * streaming_.width, static_cast<int64_t>(features_.size()));
  features_.erase(features_.begin(), features_.begin() + read);
  ++num_chunks_;
}

// Results of all runs so far as one tensor [1, frames, width].
ops::Tensor ChunkedSource::TakeKept() {
  int64_t frames = 0;
  for (const ops::Tensor& part : kept_) {
    frames += part.dim(1);
  }
  const int64_t width = kept_[0].dim(2);
  ops::Tensor whole(ops::DType::kF32, {1, frames, width});
  float* to = whole.mutable_data<float>();
  for (const ops::Tensor& part : kept_) {
    to = std::copy_n(part.data<float>(), part.num_elements(), to);
  }
  kept_.clear();
  return whole;
}

}  // namespace beamwright::engine
