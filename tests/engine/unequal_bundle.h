// A bundle with attention whose encoder takes sources of unequal length together.
#ifndef BEAMWRIGHT_TESTS_ENGINE_UNEQUAL_BUNDLE_H_
#define BEAMWRIGHT_TESTS_ENGINE_UNEQUAL_BUNDLE_H_

#include "tests/engine/recurrent_bundle.h"
#include "tests/support/recurrent_encoder.h"

namespace beamwright::engine_testing {

inline bundle::Bundle UnequalBundle(uint32_t seed) {
  const RecurrentOptions options;
  bundle::Bundle bundle = RecurrentBundle(options).Build();
  bundle.encoder = testing_support::RecurrentEncoder(seed, 50, options.width).Build();
  return bundle;
}

}  // namespace beamwright::engine_testing

#endif  // BEAMWRIGHT_TESTS_ENGINE_UNEQUAL_BUNDLE_H_
