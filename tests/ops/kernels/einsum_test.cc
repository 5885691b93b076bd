// Einsum against a sum over every index of every label, in double.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/ops/kernels/onnx_vectors.h"
#include "tests/ops/kernels/run_operator.h"

namespace beamwright::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Call Einsum(const std::string& equation, std::vector<Tensor> inputs) {
  return {"Einsum", std::move(inputs), {{"equation", equation}}};
}

// Terms without ellipses, explicit output.
std::vector<double> Naive(const std::vector<std::string>& terms, const std::string& out,
                          const std::vector<Tensor>& inputs) {
  std::map<char, int64_t> extents;
  for (size_t i = 0; i < terms.size(); ++i) {
    for (size_t axis = 0; axis < terms[i].size(); ++axis) {
      extents[terms[i][axis]] = inputs[i].dim(static_cast<int>(axis));
    }
  }
  std::vector<std::vector<float>> values;
  for (const Tensor& input : inputs) values.push_back(Floats(input));
  int64_t size = 1;
  for (const char c : out) size *= extents[c];
  std::vector<double> result(static_cast<size_t>(size), 0.0);
  std::map<char, int64_t> index;
  const auto at = [&](const std::string& term) {
    int64_t offset = 0;
    for (const char c : term) offset = offset * extents[c] + index[c];
    return static_cast<size_t>(offset);
  };
  int64_t total = 1;
  for (const auto& [label, extent] : extents) total *= extent;
  for (int64_t i = 0; i < total; ++i) {
    int64_t rest = i;
    for (const auto& [label, extent] : extents) {
      index[label] = rest % extent;
      rest /= extent;
    }
    double product = 1;
    for (size_t t = 0; t < terms.size(); ++t) product *= values[t][at(terms[t])];
    result[at(out)] += product;
  }
  return result;
}

TEST(Einsum, EqualsSumsOverEveryIndex) {
  Random random(1);
  const std::vector<std::pair<std::vector<std::string>, std::string>> equations = {
      {{"ij", "jk"}, "ik"},
      {{"bij", "bjk"}, "bik"},
      {{"bij", "bkj"}, "kbi"},
      {{"i", "i"}, ""},
      {{"i", "j"}, "ij"},
      {{"ii"}, "i"},
      {{"iij"}, "ji"},
      {{"ijk"}, "kj"},
      {{"ij"}, ""},
      {{"ii", "ij"}, "j"},
      {{"ij", "kl"}, "jl"},
      {{"aij", "jka", "kb"}, "bi"},
      {{"ij", "jk", "kl"}, "il"},
      {{"bhid", "bhjd"}, "bhij"},
      {{"ij", "ij"}, "ij"},
      {{"iji", "j"}, "i"},
      {{"aB", "Ba"}, "Ba"},
      {{"i", "j", "k"}, "kji"}};
  for (const auto& [terms, out] : equations) {
    std::string equation;
    for (const std::string& term : terms) equation += (equation.empty() ? "" : ", ") + term;
    for (int trial = 0; trial < 4; ++trial) {
      std::map<char, int64_t> extents;
      std::vector<Tensor> inputs;
      for (const std::string& term : terms) {
        Shape shape;
        for (const char c : term) {
          shape.push_back(extents.emplace(c, random.Int(1, 4)).first->second);
        }
        inputs.push_back(random.Floats(shape));
      }
      const Tensor result = RunOne(Einsum(equation + " -> " + out, inputs));
      ASSERT_EQ(result.rank(), static_cast<int>(out.size()));
      const std::vector<double> expected = Naive(terms, out, inputs);
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(Floats(result)[i], expected[i], 1e-5) << equation << " -> " << out;
      }
    }
  }
}

TEST(Einsum, TheOutputMayBeImplicit) {
  Random random(2);
  const Tensor a = random.Floats({2, 3}), b = random.Floats({3, 4});
  EXPECT_TRUE(SameBits(RunOne(Einsum("ij,jk", {a, b})), RunOne(Einsum("ij,jk->ik", {a, b}))));
  EXPECT_TRUE(SameBits(RunOne(Einsum("ba", {a})), RunOne(Einsum("ba->ab", {a}))));
  // Upper case letters come first.
  EXPECT_TRUE(SameBits(RunOne(Einsum("aB", {a})), RunOne(Einsum("aB->Ba", {a}))));
  const Tensor square = random.Floats({3, 3});
  EXPECT_TRUE(SameBits(RunOne(Einsum("ii", {square})), RunOne(Einsum("ii->", {square}))));
}

TEST(Einsum, EllipsesBroadcastFromTheRight) {
  Random random(3);
  const Tensor a = random.Floats({2, 1, 3, 4}), b = random.Floats({5, 4, 2});
  const Tensor product = RunOne({"MatMul", {a, b}});
  for (const char* equation : {"...ij,...jk->...ik", "...ij,...jk"}) {
    const Tensor out = RunOne(Einsum(equation, {a, b}));
    ASSERT_EQ(out.shape(), Shape({2, 5, 3, 2}));
    for (size_t i = 0; i < Floats(out).size(); ++i) {
      EXPECT_NEAR(Floats(out)[i], Floats(product)[i], 1e-6);
    }
  }
  // Axes of the ellipsis that the output leaves out are summed over, repeated where one is 1.
  const Tensor ones = F32({1, 2}, {1, 1}), three = F32({3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(Floats(RunOne(Einsum("...j,...j->j", {ones, three}))), ElementsAre(9, 12));
  // An ellipsis may stand for nothing.
  EXPECT_THAT(Floats(RunOne(Einsum("...j->...", {F32({2}, {1, 2})}))), ElementsAre(3));
  // Three operands, the broadcast axis in the last alone.
  EXPECT_THAT(Floats(RunOne(Einsum("...i,i...,...->...i", {F32({1, 2}, {1, 2}), F32({2, 1}, {1, 1}),
                                                           F32({3}, {1, 2, 3})}))),
              ElementsAre(1, 2, 2, 4, 3, 6));
}

TEST(Einsum, EveryType) {
  for (const DType dtype :
       {DType::kF16, DType::kBF16, DType::kF64, DType::kI64, DType::kI32, DType::kI16, DType::kI8,
        DType::kU64, DType::kU32, DType::kU16, DType::kU8}) {
    const Tensor a = *Convert(I64({2, 2}, {1, 2, 3, 4}), dtype);
    const Tensor out = RunOne(Einsum("ij,jk->ik", {a, a}));
    EXPECT_EQ(out.dtype(), dtype);
    EXPECT_THAT(Floats(out), ElementsAre(7, 10, 15, 22));
  }
  const Tensor bytes = *Convert(I64({2}, {100, 100}), DType::kI8);
  EXPECT_THAT(Integers(RunOne(Einsum("i->", {bytes}))), ElementsAre(-56));
}

TEST(Einsum, OnnxVectors) {
  if (!HaveOnnxVectors()) GTEST_SKIP();
  for (const char* name : {"batch_diagonal", "batch_matmul", "inner_prod", "sum", "transpose"}) {
    const OnnxVectors v = ReadOnnxVectors(std::string("test_einsum_") + name);
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < v.input_names.size(); ++i) inputs.push_back(v.input(i));
    const Tensor out = RunOne(Einsum(std::get<std::string>(v.values.at("equation")), inputs));
    ASSERT_EQ(out.shape(), v.output(0).shape()) << name;
    for (int64_t i = 0; i < out.num_elements(); ++i) {
      EXPECT_NEAR(out.data<double>()[i], v.output(0).data<double>()[i], 1e-12) << name;
    }
  }
}

TEST(Einsum, ThreadsDoNotChangeTheResult) {
  Random random(4);
  Call call = Einsum("bij,bkj->bik", {random.Floats({3, 128, 100}), random.Floats({3, 128, 100})});
  const Tensor one = RunOne(call);
  call.num_threads = 2;
  EXPECT_TRUE(SameBits(one, RunOne(call)));
}

TEST(Einsum, RefusesWhatCannotBe) {
  const Tensor a = F32({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(ErrorOf(Einsum("ij->k", {a})), HasSubstr("'k' of the output is in no input"));
  EXPECT_THAT(ErrorOf(Einsum("ij->ii", {a})), HasSubstr("'i' stands twice"));
  EXPECT_THAT(ErrorOf(Einsum("i1->i", {a})), HasSubstr("has '1'"));
  EXPECT_THAT(ErrorOf(Einsum("i.j->i", {a})), HasSubstr("has '.'"));
  EXPECT_THAT(ErrorOf(Einsum("...i...->i", {a})), HasSubstr("more than one ellipsis"));
  EXPECT_THAT(ErrorOf(Einsum("i->j->i", {a})), HasSubstr("more than one '->'"));
  EXPECT_THAT(ErrorOf(Einsum("ij,jk->ik", {a})), HasSubstr("expected 2"));
  EXPECT_THAT(ErrorOf(Einsum("ijk->i", {a})), HasSubstr("has 2 axes, the equation names 3"));
  EXPECT_THAT(ErrorOf(Einsum("i->i", {a})), HasSubstr("has 2 axes, the equation names 1"));
  EXPECT_THAT(ErrorOf(Einsum("ii->i", {a})), HasSubstr("extent 3 of axis 1"));
  EXPECT_THAT(ErrorOf(Einsum("ij,ij->i", {a, F32({2, 1}, {1, 2})})),
              HasSubstr("input 1: extent 1"));
  EXPECT_THAT(ErrorOf(Einsum("ij,jk->ik", {a, I64({3, 1}, {1, 2, 3})})),
              HasSubstr("input 1: element type i64"));
  const Tensor wide = Tensor::Zeros(DType::kU8, {1 << 20});
  EXPECT_THAT(ErrorOf(Einsum("i,j,i,j->", {wide, wide, wide, wide})),
              HasSubstr("larger than 8 GiB"));
}

}  // namespace
}  // namespace beamwright::ops
