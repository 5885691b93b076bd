#include "server/oip/input_tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace beamwright::oip {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Contents = inference::InferTensorContents;

// A request with the input 'x' of these typed elements.
inference::ModelInferRequest TypedRequest(const std::string& datatype, const Contents& contents,
                                          int64_t count) {
  inference::ModelInferRequest request;
  auto& input = *request.add_inputs();
  input.set_name("x");
  input.set_datatype(datatype);
  input.add_shape(count);
  *input.mutable_contents() = contents;
  return request;
}

TEST(InputTensorTest, TypedElementsOutsideOfANarrowTypeAreRefused) {
  struct Case {
    const char* datatype;
    std::vector<int64_t> fit;
    std::vector<int64_t> refused;
  };
  for (const Case& c :
       {Case{"INT8", {-128, 127}, {-129, 128}}, Case{"INT16", {-32768, 32767}, {-32769, 32768}},
        Case{"UINT8", {0, 255}, {256}}, Case{"UINT16", {0, 65535}, {65536}}}) {
    const auto read = [&c](int64_t value) {
      Contents contents;
      if (c.datatype[0] == 'U') {
        contents.add_uint_contents(static_cast<uint32_t>(value));
      } else {
        contents.add_int_contents(static_cast<int32_t>(value));
      }
      return ReadInputs(TypedRequest(c.datatype, contents, 1)).status();
    };
    for (const int64_t value : c.fit) {
      EXPECT_TRUE(read(value).ok()) << c.datatype << ' ' << value;
    }
    for (const int64_t value : c.refused) {
      const absl::Status status = read(value);
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.datatype << ' ' << value;
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("input 'x': " + std::to_string(value) +
                            " is outside the range of the datatype"));
    }
  }
}

TEST(InputTensorTest, AnInputIsGivenOnce) {
  Contents one;
  one.add_int_contents(1);
  inference::ModelInferRequest request;
  for (int i = 0; i < 1000; ++i) {
    *request.add_inputs() = TypedRequest("INT32", one, 1).inputs(0);
    request.mutable_inputs(i)->set_name("x" + std::to_string(i));
  }
  EXPECT_EQ(ReadInputs(request)->size(), 1000);
  request.mutable_inputs(999)->set_name("x7");
  EXPECT_THAT(std::string(ReadInputs(request).status().message()),
              HasSubstr("input 'x7' is given twice"));
}

TEST(InputTensorTest, WideIdsAreTakenUpTo32BitsAndRefusedBeyond) {
  constexpr int64_t kLeast = std::numeric_limits<int32_t>::min();
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const auto ids = [](const std::vector<int64_t>& values) {
    Contents contents;
    contents.mutable_int64_contents()->Add(values.begin(), values.end());
    const auto tensors =
        ReadInputs(TypedRequest("INT64", contents, static_cast<int64_t>(values.size())));
    EXPECT_TRUE(tensors.ok()) << tensors.status();
    return ToIds(tensors->at(0));
  };
  const auto taken = ids({7, kLeast, kMost});
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_THAT(*taken, ElementsAre(7, kLeast, kMost));
  for (const int64_t wide : {kLeast - 1, kMost + 1, int64_t{1} << 32}) {
    const absl::Status status = ids({7, wide}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << wide;
    EXPECT_THAT(std::string(status.message()), HasSubstr("element 1 is " + std::to_string(wide)));
  }
}

}  // namespace
}  // namespace beamwright::oip
