// Waiting for what another process does by itself: bounded, so that a test fails rather than hangs.
#ifndef BEAMWRIGHT_TESTS_E2E_BECOMES_H_
#define BEAMWRIGHT_TESTS_E2E_BECOMES_H_

#include <gtest/gtest.h>

#include <functional>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace beamwright::e2e {

// Asks until it is true, for two minutes at most.
inline ::testing::AssertionResult Becomes(const std::function<bool()>& asked) {
  const absl::Time end = absl::Now() + absl::Minutes(2);
  while (!asked()) {
    if (absl::Now() > end) {
      return ::testing::AssertionFailure() << "it did not happen within two minutes";
    }
    absl::SleepFor(absl::Milliseconds(5));
  }
  return ::testing::AssertionSuccess();
}

}  // namespace beamwright::e2e

#endif  // BEAMWRIGHT_TESTS_E2E_BECOMES_H_
