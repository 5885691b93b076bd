#include "tests/support/test_data.h"

#include "absl/strings/str_cat.h"

namespace beamwright::testing_support {

std::string TestData(absl::string_view path) {
  return absl::StrCat(BEAMWRIGHT_TEST_DATA, "/", path);
}

}  // namespace beamwright::testing_support
