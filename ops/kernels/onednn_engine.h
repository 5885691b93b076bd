// What every user of oneDNN here shares. Private to the oneDNN halves of kernels.
#ifndef BEAMWRIGHT_OPS_KERNELS_ONEDNN_ENGINE_H_
#define BEAMWRIGHT_OPS_KERNELS_ONEDNN_ENGINE_H_

#include "oneapi/dnnl/dnnl.hpp"

namespace beamwright::ops {

// oneDNN splits work by the number of OpenMP threads that it sees, when a primitive is made and
// when it runs; our promise (docs/numerics.md) needs that to be one. The setting is the calling
// thread's own.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  const int before_;
};

const dnnl::engine& OneDnnEngine();
// The calling thread's own.
dnnl::stream& OneDnnStream();
// Buffer `slot` of the calling thread, at least `bytes` long and aligned to 64; valid until the
// thread asks for it again.
inline constexpr int kOneDnnBuffers = 3;
void* OneDnnBuffer(int slot, size_t bytes);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_ONEDNN_ENGINE_H_
