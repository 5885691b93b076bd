#ifndef BEAMWRIGHT_NO_ONEDNN
#include "ops/kernels/onednn_engine.h"

#include <omp.h>

#include <cstdint>
#include <vector>

namespace beamwright::ops {

OneThread::OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
OneThread::~OneThread() { omp_set_num_threads(before_); }

const dnnl::engine& OneDnnEngine() {
  static const auto& engine = *new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::stream& OneDnnStream() {
  static thread_local dnnl::stream stream(OneDnnEngine());
  return stream;
}

void* OneDnnBuffer(int slot, size_t bytes) {
  static thread_local std::vector<unsigned char> buffers[kOneDnnBuffers];
  std::vector<unsigned char>& buffer = buffers[slot];
  if (buffer.size() < bytes + 64) {
    buffer.resize(bytes + 64);
  }
  const auto address = reinterpret_cast<uintptr_t>(buffer.data());
  return buffer.data() + (64 - address % 64) % 64;
}

}  // namespace beamwright::ops
#endif  // BEAMWRIGHT_NO_ONEDNN
