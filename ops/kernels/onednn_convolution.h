// The oneDNN half of convolutions: primitives for one item of a batch, each on one thread, so that
// an item's result cannot depend on the batch that it came in (docs/numerics.md). Private to
// kernels/.
#ifndef BEAMWRIGHT_OPS_KERNELS_ONEDNN_CONVOLUTION_H_
#define BEAMWRIGHT_OPS_KERNELS_ONEDNN_CONVOLUTION_H_

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "ops/kernels/convolution.h"

namespace beamwright::ops {

// One item under one geometry: in [groups * in_channels, spatial..] to out [groups * out_channels,
// spatial..], dense f32.
class OneDnnConvolution {
 public:
  virtual ~OneDnnConvolution() = default;
  // Callable by many threads at once. False if oneDNN reports an error.
  virtual bool Run(const float* in, float* out) const = 0;
};

// The primitives of one constant filter, found by geometry. Extents may change from call to call:
// the last kMost geometries are kept, and packings of the filter are shared among them.
// Thread-safe.
class OneDnnConvolutions {
 public:
  static constexpr size_t kMost = 8;

  OneDnnConvolutions();
  ~OneDnnConvolutions();

  // filter: always the same, dense. Null if oneDNN has no suitable kernel.
  std::shared_ptr<const OneDnnConvolution> Find(const ConvolutionGeometry& geometry,
                                                const float* filter);

 private:
  struct Entry {
    ConvolutionGeometry geometry;
    std::shared_ptr<const OneDnnConvolution> convolution;
  };
  struct Filters;  // packings

  absl::Mutex mutex_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // latest use first
  std::unique_ptr<Filters> filters_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_ONEDNN_CONVOLUTION_H_
