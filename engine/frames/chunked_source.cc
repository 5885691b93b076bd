// Features of a source that an encoder reads chunk by chunk: `chunk` frames for each run, of which
// the next run begins `shift` frames later. After the last features come `tail` frames of silence,
// for encoders that look ahead. What lies before the next chunk is dropped when states advance.
#include "engine/frames/chunked_source.h"

#include <algorithm>
#include <utility>

namespace beamwright::engine {

void ChunkedSource::Add(ops::Tensor piece) {
  num_features_ += piece.dim(1);
  num_bytes_ += piece.num_bytes();
  pieces_.push_back(std::move(piece));
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
  const auto put = [&](int64_t frame, int64_t i, float value) {
    to[streaming_.width_first ? i * chunk + frame : frame * width + i] = value;
  };
  int64_t copied = 0;  // frames
  int64_t begin = num_read_;
  for (auto piece = pieces_.begin(); piece != pieces_.end() && copied < chunk; ++piece) {
    const int64_t frames = std::min(chunk - copied, piece->dim(1) - begin);
    const float* from = piece->data<float>() + begin * width;
    if (!streaming_.width_first) {
      std::copy_n(from, frames * width, to + copied * width);
    } else {
      for (int64_t frame = 0; frame < frames; ++frame) {
        for (int64_t i = 0; i < width; ++i) {
          put(copied + frame, i, *from++);
        }
      }
    }
    copied += frames;
    begin = 0;
  }
  for (int64_t frame = copied; frame < chunk; ++frame) {  // behind the end
    for (int64_t i = 0; i < width; ++i) {
      put(frame, i, streaming_.silence);
    }
  }
}

void ChunkedSource::Advance(StreamStates states) {
  states_ = std::move(states);
  ++num_chunks_;
  for (int64_t left = streaming_.shift; left > 0 && !pieces_.empty();) {
    const int64_t there = pieces_.front().dim(1) - num_read_;
    if (left < there) {
      num_read_ += left;
      return;
    }
    left -= there;
    num_read_ = 0;
    num_bytes_ -= pieces_.front().num_bytes();
    pieces_.pop_front();
  }
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
