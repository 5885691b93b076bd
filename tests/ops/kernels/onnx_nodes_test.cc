// Published vectors: nodes of the ONNX test suite that one operator of this library can answer,
// with the node's attributes and inputs put as that operator wants them.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "absl/strings/str_cat.h"
#include "tests/ops/kernels/onnx_vectors.h"
#include "tests/ops/kernels/run_operator.h"

namespace beamwright::ops {
namespace {

using Prepare = std::function<void(const OnnxVectors& vectors, Call& call)>;

// Runs `op` on the vectors' inputs, as `prepare` leaves them, and compares each element.
void Check(const std::string& test, const std::string& op, const Prepare& prepare = nullptr) {
  SCOPED_TRACE(test);
  const OnnxVectors vectors = ReadOnnxVectors("test_" + test);
  Call call{op, {}};
  for (size_t i = 0; i < vectors.input_names.size(); ++i) call.inputs.push_back(vectors.input(i));
  if (prepare != nullptr) prepare(vectors, call);
  const Tensor got = RunOne(call);
  const Tensor expected = vectors.output(0);
  ASSERT_EQ(got.dtype(), expected.dtype());
  ASSERT_EQ(got.shape(), expected.shape());
  const Tensor a = *Convert(got, DType::kF64);
  const Tensor b = *Convert(expected, DType::kF64);
  // An f32 reference that cancels (log(exp(x) + 1)) is no better than this.
  const double error = expected.dtype() == DType::kF16 ? 1e-3 : 1e-6;
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    const double x = a.data<double>()[i], y = b.data<double>()[i];
    if (std::isnan(y)) {
      ASSERT_TRUE(std::isnan(x));
    } else if (std::isinf(y)) {
      ASSERT_EQ(x, y);
    } else {
      ASSERT_NEAR(x, y, error * std::max(1.0, std::fabs(y))) << "element " << i;
    }
  }
}

Tensor Value(double value) { return Tensor::Scalar(static_cast<float>(value)); }
double Number(const OnnxVectors& vectors, const std::string& name, double fallback) {
  const auto found = vectors.values.find(name);
  return found == vectors.values.end() ? fallback : std::get<double>(found->second);
}
// Hands an attribute over under OpenVINO's name.
Prepare Attribute(const std::string& from, const std::string& to, AttributeValue fallback) {
  return [=](const OnnxVectors& vectors, Call& call) {
    const auto found = vectors.values.find(from);
    call.attributes.push_back({to, found == vectors.values.end() ? fallback : found->second});
  };
}
// An attribute of integers as one more input.
Prepare ListInput(const std::string& name) {
  return [=](const OnnxVectors& vectors, Call& call) {
    const auto list = std::get<std::vector<int64_t>>(vectors.values.at(name));
    call.inputs.push_back(I64({static_cast<int64_t>(list.size())}, list));
  };
}
Prepare ScalarInput(const std::string& name, int64_t fallback) {
  return [=](const OnnxVectors& vectors, Call& call) {
    const auto found = vectors.values.find(name);
    call.inputs.push_back(Tensor::Scalar(
        found == vectors.values.end() ? fallback : std::get<int64_t>(found->second)));
  };
}

class OnnxNodes : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HaveOnnxVectors()) GTEST_SKIP() << "libonnx-testdata is not installed";
  }
};

TEST_F(OnnxNodes, Elementwise) {
  const std::pair<const char*, const char*> cases[] = {{"abs", "Abs"},
                                                       {"acos", "Acos"},
                                                       {"acosh", "Acosh"},
                                                       {"add_bcast", "Add"},
                                                       {"add_uint8", "Add"},
                                                       {"and_bcast4v3d", "LogicalAnd"},
                                                       {"asin", "Asin"},
                                                       {"asinh", "Asinh"},
                                                       {"atan", "Atan"},
                                                       {"atanh", "Atanh"},
                                                       {"ceil", "Ceiling"},
                                                       {"cos", "Cos"},
                                                       {"cosh", "Cosh"},
                                                       {"div_bcast", "Divide"},
                                                       {"div_uint8", "Divide"},
                                                       {"equal_bcast", "Equal"},
                                                       {"erf", "Erf"},
                                                       {"exp", "Exp"},
                                                       {"floor", "Floor"},
                                                       {"greater", "Greater"},
                                                       {"greater_equal_bcast", "GreaterEqual"},
                                                       {"isnan", "IsNaN"},
                                                       {"less", "Less"},
                                                       {"less_equal_bcast", "LessEqual"},
                                                       {"log", "Log"},
                                                       {"mod_broadcast", "FloorMod"},
                                                       {"mod_mixed_sign_int16", "FloorMod"},
                                                       {"mod_mixed_sign_int32", "FloorMod"},
                                                       {"mod_mixed_sign_int64", "FloorMod"},
                                                       {"mod_mixed_sign_int8", "FloorMod"},
                                                       {"mod_uint16", "FloorMod"},
                                                       {"mod_uint32", "FloorMod"},
                                                       {"mod_uint64", "FloorMod"},
                                                       {"mod_uint8", "FloorMod"},
                                                       {"mod_int64_fmod", "Mod"},
                                                       {"mod_mixed_sign_float16", "Mod"},
                                                       {"mod_mixed_sign_float32", "Mod"},
                                                       {"mod_mixed_sign_float64", "Mod"},
                                                       {"mul_bcast", "Multiply"},
                                                       {"mul_uint8", "Multiply"},
                                                       {"neg", "Negative"},
                                                       {"not_4d", "LogicalNot"},
                                                       {"or_bcast3v1d", "LogicalOr"},
                                                       {"pow_bcast_array", "Power"},
                                                       {"pow_types_int32_int32", "Power"},
                                                       {"pow_types_int64_int64", "Power"},
                                                       {"prelu_example", "PReLU"},
                                                       {"prelu_broadcast", "PReLU"},
                                                       {"relu", "ReLU"},
                                                       {"round", "Round"},
                                                       {"sigmoid", "Sigmoid"},
                                                       {"sign", "Sign"},
                                                       {"sin", "Sin"},
                                                       {"sinh", "Sinh"},
                                                       {"softplus", "SoftPlus"},
                                                       {"softsign", "SoftSign"},
                                                       {"sqrt", "Sqrt"},
                                                       {"sub_bcast", "Subtract"},
                                                       {"sub_uint8", "Subtract"},
                                                       {"tan", "Tan"},
                                                       {"tanh", "Tanh"},
                                                       {"where_example", "Select"},
                                                       {"where_long_example", "Select"},
                                                       {"xor_bcast4v4d", "LogicalXor"}};
  for (const auto& [test, op] : cases) Check(test, op);
  for (const char* type : {"float16", "float32", "float64", "int16", "int32", "int64", "int8",
                           "uint16", "uint32", "uint64", "uint8"}) {
    Check(std::string("max_") + type, "Maximum");
  }
  for (const char* type : {"float16", "float32", "float64", "int16", "int32", "int64", "int8",
                           "uint16", "uint32", "uint64", "uint8"}) {
    Check(std::string("min_") + type, "Minimum");
  }
}

TEST_F(OnnxNodes, Activations) {
  for (const char* test : {"elu", "elu_default", "elu_example"}) {
    Check(test, "Elu", Attribute("alpha", "alpha", 1.0));
  }
  for (const char* test : {"hardsigmoid", "hardsigmoid_default", "hardsigmoid_example"}) {
    Check(test, "HardSigmoid", [](const OnnxVectors& vectors, Call& call) {
      call.inputs.push_back(Value(Number(vectors, "alpha", 0.2)));
      call.inputs.push_back(Value(Number(vectors, "beta", 0.5)));
    });
  }
  for (const char* test : {"selu", "selu_default", "selu_example"}) {
    Check(test, "Selu", [](const OnnxVectors& vectors, Call& call) {
      call.inputs.push_back(Value(Number(vectors, "alpha", 1.67326319217681884765625)));
      call.inputs.push_back(Value(Number(vectors, "gamma", 1.05070102214813232421875)));
    });
  }
  Check("hardswish", "HSwish");
  const auto infinities = [](const OnnxVectors& vectors, Call& call) {
    for (const char* name : {"detect_negative", "detect_positive"}) {
      const auto found = vectors.attributes.find(name);
      call.attributes.push_back({name, found == vectors.attributes.end() || found->second != 0});
    }
  };
  for (const char* test : {"isinf", "isinf_negative", "isinf_positive"}) {
    Check(test, "IsInf", infinities);
  }
}

TEST_F(OnnxNodes, Casts) {
  const std::pair<const char*, const char*> cases[] = {
      {"cast_DOUBLE_to_FLOAT", "f32"},   {"cast_DOUBLE_to_FLOAT16", "f16"},
      {"cast_FLOAT16_to_DOUBLE", "f64"}, {"cast_FLOAT16_to_FLOAT", "f32"},
      {"cast_FLOAT_to_DOUBLE", "f64"},   {"cast_FLOAT_to_FLOAT16", "f16"}};
  for (const auto& [test, type] : cases) {
    Check(test, "Convert", [type = type](const OnnxVectors&, Call& call) {
      call.attributes.push_back({"destination_type", std::string(type)});
    });
  }
  Check("castlike_DOUBLE_to_FLOAT16", "ConvertLike");
}

TEST_F(OnnxNodes, Reductions) {
  const std::pair<const char*, const char*> ops[] = {{"l1", "ReduceL1"},   {"l2", "ReduceL2"},
                                                     {"max", "ReduceMax"}, {"mean", "ReduceMean"},
                                                     {"min", "ReduceMin"}, {"prod", "ReduceProd"}};
  for (const auto& [name, op] : ops) {
    const bool underscore = std::string(name) == "l1" || std::string(name) == "l2";
    for (const bool keeps : {false, true}) {
      const char* const form = !keeps ? "do_not_keepdims" : underscore ? "keep_dims" : "keepdims";
      Check(absl::StrCat("reduce_", name, "_", form, "_random"), op,
            [&](const OnnxVectors& vectors, Call& call) {
              ListInput("axes")(vectors, call);
              call.attributes.push_back({"keep_dims", keeps});
            });
    }
  }
  Check("reduce_sum_negative_axes_keepdims_random", "ReduceSum",
        [](const OnnxVectors&, Call& call) {
          call.attributes.push_back({"keep_dims", true});
        });
}

TEST_F(OnnxNodes, GatherAndScatter) {
  for (const char* test :
       {"gather_0", "gather_1", "gather_2d_indices", "gather_negative_indices"}) {
    Check(test, "Gather", ScalarInput("axis", 0));
  }
  for (const char* test :
       {"gather_elements_0", "gather_elements_1", "gather_elements_negative_indices"}) {
    Check(test, "GatherElements", Attribute("axis", "axis", int64_t{0}));
  }
  for (const char* test : {"gathernd_example_float32", "gathernd_example_int32",
                           "gathernd_example_int32_batch_dim1"}) {
    Check(test, "GatherND", Attribute("batch_dims", "batch_dims", int64_t{0}));
  }
  for (const char* test :
       {"scatter_elements_with_axis", "scatter_elements_without_axis",
        "scatter_elements_with_negative_indices", "scatter_elements_with_duplicate_indices"}) {
    Check(test, "ScatterElementsUpdate", [](const OnnxVectors& vectors, Call& call) {
      ScalarInput("axis", 0)(vectors, call);
      const auto found = vectors.values.find("reduction");
      if (found != vectors.values.end())
        call.attributes.push_back({"reduction", std::string("sum")});
    });
  }
  Check("scatternd", "ScatterNDUpdate");
  for (const auto& [test, reduction] :
       {std::pair("scatternd_add", "sum"), std::pair("scatternd_multiply", "prod")}) {
    Check(test, "ScatterNDUpdate", [reduction = reduction](const OnnxVectors&, Call& call) {
      call.attributes.push_back({"reduction", std::string(reduction)});
    });
  }
}

TEST_F(OnnxNodes, Movement) {
  for (const char* mode : {"edge", "reflect", "constant"}) {
    const bool constant = std::string(mode) == "constant";
    Check(constant ? "constant_pad" : std::string(mode) + "_pad", "Pad",
          [&](const OnnxVectors& vectors, Call& call) {
            const std::vector<int64_t> pads = Integers(vectors.input(1));
            const auto half = static_cast<std::ptrdiff_t>(pads.size() / 2);
            const Shape length = {half};
            call.inputs = {vectors.input(0), I64(length, {pads.begin(), pads.begin() + half}),
                           I64(length, {pads.begin() + half, pads.end()})};
            if (constant) call.inputs.push_back(vectors.input(2));
            call.attributes.push_back({"pad_mode", std::string(mode)});
          });
  }
  for (const char* test : {"onehot_with_axis", "onehot_with_negative_axis", "onehot_without_axis",
                           "onehot_negative_indices"}) {
    Check(test, "OneHot", [](const OnnxVectors& vectors, Call& call) {
      const std::vector<float> values = Floats(vectors.input(2));
      const DType dtype = vectors.output(0).dtype();
      call.inputs = {*Convert(vectors.input(0), DType::kI64),
                     *Convert(vectors.input(1), DType::kI64), *Convert(Value(values[1]), dtype),
                     *Convert(Value(values[0]), dtype)};
      Attribute("axis", "axis", int64_t{-1})(vectors, call);
      call.attributes.push_back({"negative_indices_mode", std::string("normalize")});
    });
  }
  for (const char* test : {"reversesequence_batch", "reversesequence_time"}) {
    Check(test, "ReverseSequence", [](const OnnxVectors& vectors, Call& call) {
      Attribute("batch_axis", "batch_axis", int64_t{1})(vectors, call);
      Attribute("time_axis", "seq_axis", int64_t{0})(vectors, call);
    });
  }
  for (const char* test : {"depthtospace_example", "depthtospace_dcr_mode", "depthtospace_crd_mode",
                           "depthtospace_crd_mode_example"}) {
    Check(test, "DepthToSpace", [&](const OnnxVectors& vectors, Call& call) {
      const bool crd = std::string(test).find("crd") != std::string::npos;
      Attribute("blocksize", "block_size", int64_t{1})(vectors, call);
      call.attributes.push_back({"mode", std::string(crd ? "depth_first" : "blocks_first")});
    });
  }
  for (const char* test : {"spacetodepth", "spacetodepth_example"}) {
    Check(test, "SpaceToDepth", [](const OnnxVectors& vectors, Call& call) {
      Attribute("blocksize", "block_size", int64_t{1})(vectors, call);
      call.attributes.push_back({"mode", std::string("blocks_first")});
    });
  }
  Check("nonzero_example", "NonZero");
  Check("range_float_type_positive_delta", "Range", [](const OnnxVectors&, Call& call) {
    call.attributes.push_back({"output_type", std::string("f32")});
  });
  Check("range_int32_type_negative_delta", "Range");  // without output_type: the inputs'
  Check("tile", "Tile");
  Check("expand_dim_changed", "Broadcast", Attribute("mode", "mode", std::string("bidirectional")));
}

}  // namespace
}  // namespace beamwright::ops
