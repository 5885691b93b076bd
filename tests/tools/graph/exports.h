// What PyTorch exported of small models (tests/tools/graph/testdata), each a folder with
// encoder.onnx and decoder.onnx, and the vocabularies that they share.
#ifndef BEAMWRIGHT_TESTS_TOOLS_GRAPH_EXPORTS_H_
#define BEAMWRIGHT_TESTS_TOOLS_GRAPH_EXPORTS_H_

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/test_data.h"

namespace beamwright::ops::testing_tools {

// file: of the folder; of all of them, if empty.
inline std::string Exported(const std::string& folder, const std::string& file) {
  return folder.empty()
             ? absl::StrCat(BEAMWRIGHT_SOURCE_DIR, "/tests/tools/graph/testdata/", file)
             : testing_support::TestData(absl::StrCat("tools/graph/testdata/", folder, "/", file));
}

// The folders, for INSTANTIATE_TEST_SUITE_P.
inline auto AllExports() {
  return ::testing::Values("step-lstm", "step-gru", "step-ssru", "whole-lstm", "whole-gru",
                           "whole-ssru");
}
inline std::string NameOfExport(const ::testing::TestParamInfo<const char*>& tested) {
  std::string name = tested.param;
  name[name.find('-')] = '_';
  return name;
}

}  // namespace beamwright::ops::testing_tools

#endif  // BEAMWRIGHT_TESTS_TOOLS_GRAPH_EXPORTS_H_
