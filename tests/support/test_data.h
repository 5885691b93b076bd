// Files of tests that are one archive in the repository (tests/support/archives.py).
#ifndef BEAMWRIGHT_TESTS_SUPPORT_TEST_DATA_H_
#define BEAMWRIGHT_TESTS_SUPPORT_TEST_DATA_H_

#include <string>

#include "absl/strings/string_view.h"

namespace beamwright::testing_support {

// The path of tests/PATH, where the build unpacked it: tests/frames/exports/tones.tar.gz has
// "frames/exports/tones/encoder.onnx".
std::string TestData(absl::string_view path);

}  // namespace beamwright::testing_support

#endif  // BEAMWRIGHT_TESTS_SUPPORT_TEST_DATA_H_
