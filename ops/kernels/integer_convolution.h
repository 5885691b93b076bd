// Convolutions of i32 with a constant filter, as files of quantised networks have them
// (ConvInteger, QLinearConv): computed in f32 where that is exact. Quantised values have
// nine bits with their zero point taken off, and f32 holds every whole number up to 2^24: sums that
// stay below come out the same in any order. Channels are taken in as many portions as that needs.
#ifndef BEAMWRIGHT_OPS_KERNELS_INTEGER_CONVOLUTION_H_
#define BEAMWRIGHT_OPS_KERNELS_INTEGER_CONVOLUTION_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/kernels/convolution.h"
#include "ops/kernels/float_convolution.h"

namespace beamwright::ops {

class IntegerConvolution {
 public:
  // filter: i32, [C_out, C, spatial..] or with groups [G, C_out / G, C / G, spatial..].
  IntegerConvolution(const Tensor& filter, bool grouped);

  // One item [G * C, spatial..] to [G * C_out, spatial..]. False if values are too large to be
  // exact; `out` is undefined then. Callable by many threads at once.
  bool Run(int num_threads, const ConvolutionGeometry& geometry, const int32_t* in,
           int32_t* out) const;

 private:
  // Channels [first, first + count) of the input.
  struct Portion {
    int64_t first = 0;
    int64_t count = 0;
    std::vector<float> filter;
    double largest_sum = 0;  // of the magnitudes of one output channel's weights
    std::unique_ptr<const FloatConvolution> convolution;
  };

  std::vector<Portion> portions_;
};

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_INTEGER_CONVOLUTION_H_
