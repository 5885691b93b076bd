// StateUpdate agrees with its formula in f64, for every rule, order of axes, decay and extent, and
// gives the same bits with each instruction set.
#include "ops/kernels/state_update.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/base/vector_isa.h"
#include "tests/ops/kernels/run_operator.h"

namespace beamwright::ops {
namespace {

struct UpdateCase {
  std::string rule;
  bool keys_last = false;
  Shape decay;  // [m or 1, n or 1]; none
  int64_t rows = 2;
  int64_t heads = 3;  // 0: a state [rows, m, n]
  int64_t m = 0;
  int64_t n = 0;
  bool reads = true;
  bool shared_key = false;  // the same for all heads
};

int64_t UpdateKeys(const UpdateCase& c) { return c.keys_last ? c.n : c.m; }
int64_t UpdateValues(const UpdateCase& c) { return c.keys_last ? c.m : c.n; }

Call UpdateCallOf(const UpdateCase& c) {
  Random random(static_cast<uint32_t>(7 * c.m + c.n));
  const bool has_heads = c.heads > 0;
  const auto shape = [&](int64_t heads, Shape last) {
    Shape dims = {c.rows};
    if (has_heads) {
      dims.push_back(heads);
    }
    dims.insert(dims.end(), last.begin(), last.end());
    return dims;
  };
  Call call{std::string(kStateUpdateName), {}};
  call.inputs.resize(kNumUpdateInputs);
  call.inputs[kUpdateState] = random.Floats(shape(c.heads, {c.m, c.n}));
  if (!c.decay.empty()) {
    call.inputs[kUpdateDecay] = random.Floats(shape(c.heads, c.decay), 0.2f, 1);
  }
  call.inputs[kUpdateKey] = random.Floats(shape(c.shared_key ? 1 : c.heads, {UpdateKeys(c), 1}));
  call.inputs[kUpdateValue] = random.Floats(shape(c.heads, {1, UpdateValues(c)}));
  if (c.reads) {
    call.inputs[kUpdateQuery] = random.Floats(shape(c.heads, {1, UpdateKeys(c)}));
  }
  if (c.rule == "pair") {
    call.inputs[kUpdateErase] = random.Floats(shape(c.heads, {UpdateKeys(c), 1}));
    call.inputs[kUpdateWrite] = random.Floats(shape(c.heads, {1, UpdateKeys(c)}));
  } else if (c.rule == "delta") {
    call.inputs[kUpdateRate] =
        random.Floats(shape(c.heads, {1, c.m % 2 == 0 ? 1 : UpdateValues(c)}), 0, 1);
  }
  call.attributes = {{"rule", c.rule}, {"keys_last", c.keys_last}};
  call.num_outputs = c.reads ? 2 : 1;
  call.num_threads = 2;
  return call;
}

// By the formula, one element after the other.
std::vector<std::vector<double>> UpdateByHand(const UpdateCase& c, const Call& call) {
  const int64_t heads = std::max<int64_t>(c.heads, 1);
  std::vector<double> next;
  std::vector<double> read;
  for (int64_t at = 0; at < c.rows * heads; ++at) {
    const auto element = [&](int input, int64_t i, int64_t width) {
      const Tensor& tensor = call.inputs[static_cast<size_t>(input)];
      const int64_t own = c.shared_key && input == kUpdateKey ? at / heads : at;
      return static_cast<double>(tensor.data<float>()[own * width + i]);
    };
    const auto matrix = [&](int64_t key, int64_t value) {
      return c.keys_last ? value * c.n + key : key * c.n + value;
    };
    const auto decayed = [&](int64_t key, int64_t value) {
      const double old = element(kUpdateState, matrix(key, value), c.m * c.n);
      if (c.decay.empty()) {
        return old;
      }
      const int64_t i = c.decay[0] == 1 ? 0 : c.keys_last ? value : key;
      const int64_t j = c.decay[1] == 1 ? 0 : c.keys_last ? key : value;
      return old * element(kUpdateDecay, i * c.decay[1] + j, c.decay[0] * c.decay[1]);
    };
    std::vector<double> own(static_cast<size_t>(c.m * c.n));
    for (int64_t value = 0; value < UpdateValues(c); ++value) {
      double added = element(kUpdateValue, value, UpdateValues(c));
      double known = 0;
      for (int64_t key = 0; key < UpdateKeys(c); ++key) {
        if (c.rule == "delta") {
          known += decayed(key, value) * element(kUpdateKey, key, UpdateKeys(c));
        } else if (c.rule == "pair") {
          known += element(kUpdateState, matrix(key, value), c.m * c.n) *
                   element(kUpdateErase, key, UpdateKeys(c));
        }
      }
      if (c.rule == "delta") {
        const int64_t width = call.inputs[kUpdateRate].shape().back();
        added = (added - known) * element(kUpdateRate, width == 1 ? 0 : value, width);
      }
      double sum = 0;
      for (int64_t key = 0; key < UpdateKeys(c); ++key) {
        double x = decayed(key, value) + added * element(kUpdateKey, key, UpdateKeys(c));
        x += c.rule == "pair" ? known * element(kUpdateWrite, key, UpdateKeys(c)) : 0;
        own[static_cast<size_t>(matrix(key, value))] = x;
        sum += c.reads ? x * element(kUpdateQuery, key, UpdateKeys(c)) : 0;
      }
      read.push_back(sum);
    }
    next.insert(next.end(), own.begin(), own.end());
  }
  return {next, read};
}

std::vector<UpdateCase> UpdateCases() {
  std::vector<UpdateCase> cases;
  for (const char* const rule : {"sum", "delta", "pair"}) {
    for (const bool keys_last : {false, true}) {
      for (const auto& [m, n] : std::vector<std::pair<int64_t, int64_t>>{
               {4, 3}, {7, 16}, {16, 16}, {5, 37}, {64, 64}, {33, 130}, {300, 80}}) {
        for (const Shape& decay : {Shape{}, Shape{1, 1}, Shape{m, 1}, Shape{1, n}, Shape{m, n}}) {
          UpdateCase c{rule, keys_last, decay};
          c.m = m;
          c.n = n;
          cases.push_back(c);
        }
        UpdateCase c{rule, keys_last, {1, 1}};
        c.m = m;
        c.n = n;
        c.heads = 0;
        cases.push_back(c);
        c.heads = 2;
        c.reads = false;
        c.shared_key = true;
        cases.push_back(c);
      }
    }
  }
  return cases;
}

TEST(StateUpdateTest, IsItsFormula) {
  for (const UpdateCase& c : UpdateCases()) {
    const Call call = UpdateCallOf(c);
    const auto outputs = RunAll(call);
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    const std::vector<std::vector<double>> expected = UpdateByHand(c, call);
    for (size_t i = 0; i < outputs->size(); ++i) {
      const std::vector<float> got = Floats((*outputs)[i]);
      ASSERT_EQ(got.size(), expected[i].size());
      for (size_t j = 0; j < got.size(); ++j) {
        // Sums of as many terms as there are keys, each below 1 or so.
        ASSERT_NEAR(got[j], expected[i][j], 2e-6 * static_cast<double>(UpdateKeys(c) + 10))
            << c.rule << (c.keys_last ? " last " : " ") << c.m << "x" << c.n << ", output " << i
            << ", element " << j;
      }
    }
  }
}

TEST(StateUpdateTest, HasTheSameBitsWithAllInstructions) {
  for (const UpdateCase& c : UpdateCases()) {
    std::vector<std::vector<Tensor>> outputs;
    for (const VectorIsa isa : {VectorIsa::kPlain, VectorIsa::kAvx2, VectorIsa::kAvx512}) {
      const ScopedVectorIsa scope(isa);
      auto run = RunAll(UpdateCallOf(c));
      ASSERT_TRUE(run.ok()) << run.status();
      outputs.push_back(*std::move(run));
    }
    for (size_t i = 0; i < outputs[0].size(); ++i) {
      EXPECT_TRUE(SameBits(outputs[0][i], outputs[1][i])) << c.rule << c.m << "x" << c.n;
      EXPECT_TRUE(SameBits(outputs[0][i], outputs[2][i])) << c.rule << c.m << "x" << c.n;
    }
  }
}

TEST(StateUpdateTest, RefusesWhatDoesNotGoWithTheState) {
  UpdateCase c{"delta", false, {1, 1}};
  c.m = 4;
  c.n = 3;
  Random random(1);
  Call call = UpdateCallOf(c);
  call.inputs[kUpdateKey] = random.Floats({2, 3, 3, 1});
  EXPECT_EQ(ErrorOf(call), "key: shape [2, 3, 3, 1] does not go with state [2, 3, 4, 3]");
  call = UpdateCallOf(c);
  call.inputs[kUpdateDecay] = random.Floats({2, 2, 1, 1});
  EXPECT_EQ(ErrorOf(call), "decay: shape [2, 2, 1, 1] does not go with state [2, 3, 4, 3]");
  call = UpdateCallOf(c);
  call.inputs[kUpdateValue] = Tensor();
  EXPECT_EQ(ErrorOf(call), "value: is missing");
  call = UpdateCallOf(c);
  call.attributes[0].second = std::string("gated");
  EXPECT_EQ(ErrorOf(call), "attribute 'rule' is 'gated'; it must be sum, delta or pair");
}

}  // namespace
}  // namespace beamwright::ops
