// What a quantised ONNX file must not ask for: one error each, which names the input. That the rest
// means what ONNX Runtime means is held by tests/conformance.
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/ops/import/onnx_files.h"

namespace beamwright::ops {
namespace {

using fixture::ErrorOf;
using fixture::GraphOf;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// x u8 [2, 3] dequantised by `scale` and a zero point of `zero_type`.
onnx::ModelProto Dequantising(const std::string& scale, const std::string& zero_type,
                              const std::string& zero = "3") {
  return fixture::Model(GraphOf(absl::StrReplaceAll(
      R"pb(
        name: "g"
        node {
          op_type: "DequantizeLinear"
          name: "q"
          input: [ "x", "s", "z" ]
          output: "y"
        }
        initializer { name: "s" data_type: 1 float_data: SCALE }
        initializer { name: "z" data_type: ZERO int32_data: POINT }
        input {
          name: "x"
          type {
            tensor_type {
              elem_type: 2
              shape {
                dim { dim_value: 2 }
                dim { dim_value: 3 }
              }
            }
          }
        }
        output {
          name: "y"
          type { tensor_type { elem_type: 1 } }
        }
      )pb",
      {{"SCALE", scale}, {"ZERO", zero_type}, {"POINT", zero}})));
}

constexpr char kUint8[] = "2";
constexpr char kInt8[] = "3";

TEST(OnnxQuantizedTest, AScaleMustBeFiniteAndAboveZero) {
  EXPECT_EQ(ErrorOf(Dequantising("0.5", kUint8)), "");
  for (const auto& [scale, text] :
       {std::pair("0", "0"), {"-0.5", "-0.5"}, {"nan", "nan"}, {"inf", "inf"}}) {
    EXPECT_THAT(ErrorOf(Dequantising(scale, kUint8)),
                HasSubstr(std::string("input 'x_scale': element 0 is ") + text +
                          "; a scale must be a finite number above 0"));
  }
}

TEST(OnnxQuantizedTest, AllThatIsWrongIsToldAtOnce) {
  EXPECT_THAT(ErrorOf(fixture::Model(GraphOf(R"pb(
                node { op_type: "DequantizeLinear" name: "one" input: "x" input: "s" output: "a" }
                node { op_type: "Relu" name: "sound" input: "a" output: "b" }
                node { op_type: "DequantizeLinear" name: "two" input: "x" input: "t" output: "c" }
                node {
                  op_type: "DequantizeLinear"
                  name: "three"
                  input: "x"
                  input: "u"
                  input: "z"
                  output: "d"
                }
                node { op_type: "Sum" name: "last" input: "b" input: "c" input: "d" output: "y" }
                initializer { name: "s" data_type: 1 float_data: 0 }
                initializer { name: "t" data_type: 1 float_data: -1 }
                initializer { name: "u" data_type: 1 float_data: 1 }
                initializer { name: "z" data_type: 3 int32_data: 0 }
                input {
                  name: "x"
                  type {
                    tensor_type {
                      elem_type: 2
                      shape { dim { dim_value: 2 } }
                    }
                  }
                }
                output {
                  name: "y"
                  type { tensor_type { elem_type: 1 } }
                }
              )pb"))),
              AllOf(HasSubstr("'one'"), HasSubstr("element 0 is 0; a scale"), HasSubstr("'two'"),
                    HasSubstr("element 0 is -1; a scale"), HasSubstr("'three'"),
                    HasSubstr("x_zero_point: element type i8"), Not(HasSubstr("'sound'")),
                    Not(HasSubstr("'last'"))));
}

TEST(OnnxQuantizedTest, AZeroPointHasTheTypeOfItsValues) {
  EXPECT_THAT(ErrorOf(Dequantising("0.5", kInt8)), HasSubstr("x_zero_point"));
}

// Cast, it would be another zero point.
TEST(OnnxQuantizedTest, AZeroPointLiesWithinItsType) {
  EXPECT_EQ(ErrorOf(Dequantising("0.5", kUint8, "255")), "");
  EXPECT_THAT(
      ErrorOf(Dequantising("0.5", kUint8, "256")),
      HasSubstr("initializer 'z': element 0 is 256, which u8 does not hold; it has 0 to 255"));
  EXPECT_THAT(ErrorOf(Dequantising("0.5", kUint8, "-1")), HasSubstr("element 0 is -1"));
  EXPECT_THAT(ErrorOf(Dequantising("0.5", kInt8, "128")),
              HasSubstr("element 0 is 128, which i8 does not hold; it has -128 to 127"));
}

TEST(OnnxQuantizedTest, AConvolutionsZeroPointHasTheTypeOfItsValues) {
  EXPECT_THAT(ErrorOf(fixture::Model(GraphOf(R"pb(
                name: "g"
                node {
                  op_type: "ConvInteger"
                  name: "c"
                  input: [ "x", "w", "z" ]
                  output: "y"
                }
                initializer {
                  name: "w"
                  data_type: 2
                  dims: [ 1, 1, 1 ]
                  int32_data: 3
                }
                initializer { name: "z" data_type: 3 int32_data: 3 }
                input {
                  name: "x"
                  type {
                    tensor_type {
                      elem_type: 2
                      shape {
                        dim { dim_value: 1 }
                        dim { dim_value: 1 }
                        dim { dim_value: 3 }
                      }
                    }
                  }
                }
                output {
                  name: "y"
                  type { tensor_type { elem_type: 6 } }
                }
              )pb"))),
              HasSubstr("a zero point of type i8 does not belong to values of type u8"));
}

}  // namespace
}  // namespace beamwright::ops
