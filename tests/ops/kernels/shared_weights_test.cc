// Equal weights are one, and nothing else is.

#include "ops/kernels/shared_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "ops/kernels/kernels.h"
#include "ops/tensor/tensor_memory.h"
#include "tests/ops/kernels/run_operator.h"

namespace beamwright::ops {
namespace {

TEST(SharedWeights, EqualOnesAreOne) {
  const size_t before = NumSharedWeights();
  std::vector<float> values(6 * 4);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i);
  }
  const std::vector<float> copy = values;
  const auto first = SharePacked({values.data(), 6, 4, 4}, false);
  EXPECT_EQ(SharePacked({copy.data(), 6, 4, 4}, false), first);
  EXPECT_EQ(NumSharedWeights(), before + 1);
  // Other extents, another orientation, another element, even in its sign of zero alone.
  const auto extents = SharePacked({values.data(), 4, 6, 6}, false);
  const auto turned = SharePacked({values.data(), 6, 4, 4}, true);
  values[0] = -0.0f;
  const auto zero = SharePacked({values.data(), 6, 4, 4}, false);
  EXPECT_NE(extents, first);
  EXPECT_NE(turned, first);
  EXPECT_NE(zero, first);
  // Rows that stand apart in memory.
  std::vector<float> strided(6 * 5, -1);
  for (size_t i = 0; i < copy.size(); ++i) {
    strided[i / 4 * 5 + i % 4] = copy[i];
  }
  EXPECT_EQ(SharePacked({strided.data(), 6, 4, 5}, false), first);
}

// Memory that was freed may hold other elements later, at the same address.
TEST(SharedWeights, ElementsAreKnownByTheirAddressOnlyWhileTheyLive) {
  std::vector<float> values(12, 0.5f);
  auto lifetime = std::make_shared<int>();
  const auto first = SharePacked({values.data(), 3, 4, 4}, false, Precision::kF32, lifetime);
  EXPECT_EQ(SharePacked({values.data(), 3, 4, 4}, false, Precision::kF32, lifetime), first);
  EXPECT_NE(SharePacked({values.data(), 3, 4, 4}, true, Precision::kF32, lifetime), first);
  EXPECT_NE(SharePacked({values.data(), 4, 3, 3}, false, Precision::kF32, lifetime), first);
  EXPECT_NE(SharePacked({values.data(), 2, 4, 4}, false, Precision::kF32, lifetime), first);
  EXPECT_NE(SharePacked({values.data(), 3, 4, 4}, false, Precision::kInt8, lifetime), first);
  EXPECT_EQ(SharePacked({values.data(), 3, 4, 4}, false, Precision::kF32, lifetime), first);
  lifetime = std::make_shared<int>();
  values[5] = 0.25f;
  EXPECT_NE(SharePacked({values.data(), 3, 4, 4}, false, Precision::kF32, lifetime), first);
}

TEST(SharedWeights, TheLastUserFreesThem) {
  const size_t before = NumSharedWeights();
  const std::vector<float> values(12, 0.5f);
  auto first = SharePacked({values.data(), 3, 4, 4}, false);
  auto second = SharePacked({values.data(), 3, 4, 4}, false);
  first = nullptr;
  EXPECT_EQ(NumSharedWeights(), before + 1);
  second = nullptr;
  EXPECT_EQ(NumSharedWeights(), before);
}

TEST(SharedWeights, ManyThreadsAtOnce) {
  const size_t before = NumSharedWeights();
  const std::vector<float> values(16 * 16, 0.25f);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        const auto packed = SharePacked({values.data(), 16, 16, 16}, round % 2 == 0);
        EXPECT_EQ(packed->depth(), 16);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(NumSharedWeights(), before);
}

}  // namespace

// Rows of a large constant table in each precision: against a rounding to bf16 written down here,
// and exact where the table is not an embedding.

namespace {

// To 8 bits of significand by exact arithmetic: the nearer of the two neighbours, the even one of
// two that are equally near.
float Rounded(float value) {
  if (value == 0 || !std::isfinite(value)) {
    return value;
  }
  int exponent = 0;
  std::frexp(value, &exponent);
  const int unit = std::max(exponent, -125) - 8;  // subnormal numbers keep the least one's unit
  return static_cast<float>(std::ldexp(std::nearbyint(std::ldexp(double{value}, -unit)), unit));
}

struct Lookup {
  Tensor table;
  Tensor indices;
  int64_t axis = 0;

  // As a program does it: the table is there when the kernel is made, and gone, if the kernel does
  // not need it, when it runs.
  absl::StatusOr<Tensor> Run(Precision precision) const {
    const OperatorSet operators(KernelOperators(precision));
    const Node node = MakeNode({"Gather", {table, indices, I64({}, {axis})}});
    const Tensor at = I64({}, {axis});
    const std::vector<InputInfo> infos = {{table.dtype(), PartialShape(table.shape()), &table},
                                          {indices.dtype(), PartialShape(indices.shape())},
                                          {at.dtype(), PartialShape(at.shape()), &at}};
    const auto kernel = operators.Find("Gather")->make({node, infos, operators});
    if (!kernel.ok()) {
      return kernel.status();
    }
    const Tensor gone;
    const Tensor* const inputs[] = {(*kernel)->NeedsInput(0) ? &table : &gone, &indices, &at};
    std::vector<Tensor> outputs(1);
    const absl::Status status = (*kernel)->Run({}, inputs, absl::MakeSpan(outputs));
    return status.ok() ? absl::StatusOr<Tensor>(outputs[0]) : status;
  }
};

// The value of an index in any precision but f32, or as it is.
std::vector<float> Expected(const Lookup& lookup, bool rounded) {
  std::vector<float> rows;
  for (const int64_t index : Integers(lookup.indices)) {
    const int64_t row = index < 0 ? index + lookup.table.dim(0) : index;
    for (int64_t i = 0; i < lookup.table.dim(1); ++i) {
      const float value = lookup.table.data<float>()[row * lookup.table.dim(1) + i];
      rows.push_back(rounded ? Rounded(value) : value);
    }
  }
  return rows;
}

constexpr Precision kRounded[] = {Precision::kBf16, Precision::kBf16Dot, Precision::kBf16Amx,
                                  Precision::kInt8};

TEST(EmbeddingTable, HoldsRowsInBf16WhereWeightsAreNotInF32) {
  Random random(7);
  Lookup lookup{random.Floats({5000, 67}, -3, 3), random.Ints({4, 9}, -5000, 4999)};
  float* const first = lookup.table.mutable_data<float>();
  // Ties to even, both ways, what rounds up to infinity, subnormal numbers, signs of zero.
  const float odd[] = {1.00390625F, 1.01171875F, std::numeric_limits<float>::max(),
                       1e-40F,      -0.0F,       std::numeric_limits<float>::infinity(),
                       -1e-45F};
  std::memcpy(first, odd, sizeof(odd));
  lookup.indices.mutable_data<int64_t>()[0] = 0;
  const auto exact = lookup.Run(Precision::kF32);
  ASSERT_TRUE(exact.ok()) << exact.status();
  EXPECT_EQ(Floats(*exact), Expected(lookup, false));
  std::vector<float> expected = Expected(lookup, true);
  expected[2] = std::numeric_limits<float>::infinity();
  for (const Precision precision : kRounded) {
    const auto rows = lookup.Run(precision);
    ASSERT_TRUE(rows.ok()) << rows.status();
    EXPECT_EQ(rows->shape(), Shape({4, 9, 67}));
    EXPECT_EQ(Floats(*rows), expected) << Name(precision);
    EXPECT_TRUE(std::signbit(Floats(*rows)[4]));
  }
}

TEST(EmbeddingTable, NaNStaysNaN) {
  Random random(8);
  Lookup lookup{random.Floats({4096, 64}), I64({1}, {4095})};
  lookup.table.mutable_data<float>()[4095 * 64 + 3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(Floats(*lookup.Run(Precision::kInt8))[3]));
}

TEST(EmbeddingTable, WhatIsNotOneStaysExact) {
  Random random(9);
  // Less than 1 MiB; narrow rows, such as a list of numbers; another axis.
  const Lookup lookups[] = {
      {random.Floats({4095, 64}), random.Ints({3}, 0, 4094)},
      {random.Floats({100000, 31}), random.Ints({3}, 0, 99999)},
      {random.Floats({64, 8192}), I64({8192}, std::vector<int64_t>(8192, 5)), 1}};
  for (const Lookup& lookup : lookups) {
    const auto exact = lookup.Run(Precision::kF32);
    const auto rows = lookup.Run(Precision::kInt8);
    ASSERT_TRUE(exact.ok() && rows.ok());
    EXPECT_TRUE(SameBits(*exact, *rows));
  }
}

TEST(EmbeddingTable, AnIndexOutsideIsNamed) {
  Random random(10);
  for (const int64_t index : {int64_t{4096}, int64_t{-4097}}) {
    const Lookup lookup{random.Floats({4096, 64}), I64({2}, {0, index})};
    const absl::Status exact = lookup.Run(Precision::kF32).status();
    EXPECT_EQ(lookup.Run(Precision::kBf16).status(), exact);
    EXPECT_EQ(exact.code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(EmbeddingTable, EqualTablesAreHeldOnce) {
  Random random(11);
  const Tensor table = random.Floats({4096, 64});
  const Tensor copy = F32({4096, 64}, Floats(table));
  const auto first = ShareTable({table.data<float>(), 4096, 64, 64}, table.lifetime());
  EXPECT_EQ(ShareTable({table.data<float>(), 4096, 64, 64}, table.lifetime()), first);
  EXPECT_EQ(ShareTable({copy.data<float>(), 4096, 64, 64}, copy.lifetime()), first);
  const Tensor other = random.Floats({4096, 64});
  EXPECT_NE(ShareTable({other.data<float>(), 4096, 64, 64}, other.lifetime()), first);
}

// Tables of 8-bit integers are read as they are.
TEST(EmbeddingTable, BytesAreExact) {
  Random random(12);
  for (const DType type : {DType::kI8, DType::kU8}) {
    const bool is_signed = type == DType::kI8;
    const Lookup lookup{random.Ints({20000, 64}, is_signed ? -128 : 0, is_signed ? 127 : 255, type),
                        random.Ints({3, 50}, -20000, 19999)};
    const auto exact = lookup.Run(Precision::kF32);
    const auto rows = lookup.Run(Precision::kInt8);
    ASSERT_TRUE(exact.ok() && rows.ok()) << rows.status();
    EXPECT_EQ(rows->dtype(), type);
    EXPECT_EQ(rows->shape(), Shape({3, 50, 64}));
    EXPECT_TRUE(SameBits(*exact, *rows));
    const Lookup outside{lookup.table, I64({2}, {0, 20000})};
    EXPECT_EQ(outside.Run(Precision::kInt8).status(), outside.Run(Precision::kF32).status());
    EXPECT_FALSE(outside.Run(Precision::kInt8).ok());
  }
}

TEST(EmbeddingTable, EqualTablesOfBytesAreHeldOnce) {
  Random random(13);
  const Tensor table = random.Ints({20000, 64}, -128, 127, DType::kI8);
  const Tensor copy =
      Tensor::Of<int8_t>({20000, 64}, absl::MakeConstSpan(table.data<int8_t>(), 20000 * 64));
  const auto first = ShareBytes({table.data<int8_t>(), 20000, 64, 64}, table.lifetime());
  EXPECT_EQ(ShareBytes({table.data<int8_t>(), 20000, 64, 64}, table.lifetime()), first);
  EXPECT_EQ(ShareBytes({copy.data<int8_t>(), 20000, 64, 64}, copy.lifetime()), first);
  EXPECT_NE(ShareBytes({copy.data<int8_t>(), 10000, 128, 128}, copy.lifetime()), first);
  const Tensor other = random.Ints({20000, 64}, -128, 127, DType::kI8);
  EXPECT_NE(ShareBytes({other.data<int8_t>(), 20000, 64, 64}, other.lifetime()), first);
}

// The rows of a table in 8 bits, each with another largest magnitude, and what they stand for.
struct TiedTable {
  explicit TiedTable(int lowest) {
    Random random(14);
    bytes = random.Ints({kRows, kWidth}, lowest, 127, DType::kI8);
    for (int64_t i = 0; i < kRows * kWidth; ++i) {
      const auto most = static_cast<int8_t>(i / kWidth % 128);
      int8_t& value = bytes.mutable_data<int8_t>()[i];
      value = most == 0 ? int8_t{0} : static_cast<int8_t>(value % (most + (lowest < -127 ? 2 : 1)));
      numbers.push_back(static_cast<float>(value) * 0.0123f);
    }
  }
  // Whether every row is read as it was.
  bool IsReadFrom(const ByteTable& table) const {
    std::vector<int8_t> row(kWidth);
    for (int64_t i = 0; i < kRows; ++i) {
      table.Read(i, row.data());
      if (std::memcmp(row.data(), bytes.data<int8_t>() + i * kWidth, kWidth) != 0) {
        return false;
      }
    }
    return true;
  }
  ConstMatrix<float> weight() const { return {numbers.data(), kRows, kWidth, kWidth}; }

  static constexpr int64_t kRows = 1000;
  static constexpr int64_t kWidth = 70;
  Tensor bytes;
  std::vector<float> numbers;
};

TEST(EmbeddingTable, BytesAreReadOutOfTheProductOfTheSameNumbersToTheSameBits) {
  const TiedTable tied(-127);
  const int64_t before = HeldBytes();
  const auto table = ShareBytes(
      {tied.bytes.data<int8_t>(), TiedTable::kRows, TiedTable::kWidth, TiedTable::kWidth});
  const int64_t held = HeldBytes();
  EXPECT_TRUE(tied.IsReadFrom(*table));
  const auto packed = SharePacked(tied.weight(), /*transposed=*/true, Precision::kInt8);
  EXPECT_EQ(HeldBytes() - held, static_cast<int64_t>(packed->num_bytes()) - (held - before));
  EXPECT_TRUE(tied.IsReadFrom(*table));
}

TEST(EmbeddingTable, BytesAreReadOutOfAProductThatWasThereBefore) {
  const TiedTable tied(-127);
  const auto packed = SharePacked(tied.weight(), /*transposed=*/true, Precision::kInt8);
  const int64_t before = HeldBytes();
  const auto table = ShareBytes(
      {tied.bytes.data<int8_t>(), TiedTable::kRows, TiedTable::kWidth, TiedTable::kWidth});
  EXPECT_EQ(HeldBytes(), before);
  EXPECT_TRUE(tied.IsReadFrom(*table));
}

TEST(EmbeddingTable, BytesThatAProductDoesNotHoldAreKept) {
  // -128 of a row that has it is rounded in the product.
  const TiedTable tied(-128);
  TiedTable other(-127);
  for (const auto& [kept, product] :
       {std::pair<const TiedTable*, const TiedTable*>(&tied, &tied), {&tied, &other}}) {
    const auto table = ShareBytes(
        {kept->bytes.data<int8_t>(), TiedTable::kRows, TiedTable::kWidth, TiedTable::kWidth});
    const auto packed = SharePacked(product->weight(), /*transposed=*/true, Precision::kInt8);
    EXPECT_TRUE(kept->IsReadFrom(*table));
  }
}

}  // namespace

}  // namespace beamwright::ops
