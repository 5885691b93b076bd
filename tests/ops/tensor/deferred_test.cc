// Deferred constants: made when they are read, forgotten, made again, and fixed at the end.
#include <algorithm>
#include <new>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/tensor/tensor_memory.h"

namespace beamwright::ops {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr int64_t kMany = int64_t{12} << 20;  // elements: beyond what may stay idle, 48 MiB
constexpr int64_t kFew = 10;

// f32 elements of one value; `made` counts how often they were made.
Tensor Constant(int64_t count, float value, int& made) {
  return *MakeConstant(DType::kF32, {count}, [=, &made](std::byte* out) {
    ++made;
    std::fill_n(reinterpret_cast<float*>(out), count, value);
    return absl::OkStatus();
  });
}

TEST(Deferred, ElementsAreMadeAtOnceOutsideOfAScopeAndIfTheyAreFew) {
  int made = 0;
  const Tensor outside = Constant(kMany, 1, made);
  EXPECT_EQ(made, 1);
  const DeferredScope scope;
  const Tensor few = Constant(kFew, 2, made);
  EXPECT_EQ(made, 2);
  const Tensor many = Constant(kMany, 3, made);
  EXPECT_EQ(made, 2);
  EXPECT_THAT(many.span<float>().subspan(kMany - kFew), Each(3.0f));
  EXPECT_EQ(made, 3);
}

TEST(Deferred, ForgottenElementsTakeNoMemoryAndComeBack) {
  int made = 0;
  const int64_t before = HeldBytes();
  DeferredScope scope;
  const Tensor tensor = Constant(kMany, 3, made);
  const Tensor row = tensor.Reshaped({kMany / 4, 4}).Rows(7, 8);
  EXPECT_EQ(HeldBytes(), before);
  EXPECT_EQ(tensor.data<float>()[5], 3);
  EXPECT_GE(HeldBytes(), before + kMany * 4);
  ForgetIdle();
  EXPECT_EQ(HeldBytes(), before);
  EXPECT_THAT(row.span<float>(), Each(3.0f));
  EXPECT_EQ(made, 2);
  // A little may stay.
  ForgetIdle();
  const Tensor small = Constant(int64_t{1} << 20, 4, made);
  EXPECT_EQ(small.data<float>()[0], 4);
  ForgetIdle();
  EXPECT_EQ(small.data<float>()[0], 4);
  EXPECT_EQ(made, 3);
}

// Another thread may read them then.
TEST(Deferred, NothingIsForgottenDuringAPause) {
  int made = 0;
  DeferredScope scope;
  const Tensor tensor = Constant(kMany, 3, made);
  {
    const ForgettingPaused paused;
    const float* const elements = tensor.data<float>();
    { const ForgettingPaused again; }
    ForgetIdle();
    EXPECT_EQ(elements[kMany - 1], 3);
  }
  const int64_t before = HeldBytes();
  ForgetIdle();
  EXPECT_LT(HeldBytes(), before);
  EXPECT_EQ(made, 1);
}

TEST(Deferred, AChecksErrorGoesFirst) {
  EXPECT_FALSE(CheckMeanwhile([] { return absl::OkStatus(); })) << "no scope";
  DeferredScope scope;
  const Tensor tensor = *MakeConstant(
      DType::kF32, {kMany}, [](std::byte*) { return absl::DataLossError("it became shorter"); });
  EXPECT_THAT(tensor.span<float>().subspan(0, kFew), Each(0.0f));
  for (const char* const error : {"", "first", "second"}) {
    EXPECT_TRUE(CheckMeanwhile([error]() -> absl::Status {
      return *error == 0 ? absl::OkStatus() : absl::DataLossError(error);
    }));
  }
  EXPECT_EQ(scope.Finish(), absl::DataLossError("first"));
  EXPECT_TRUE(scope.Finish().ok());
}

TEST(Deferred, ACheckWithoutMemoryIsAnError) {
  DeferredScope scope;
  EXPECT_TRUE(CheckMeanwhile([]() -> absl::Status { throw std::bad_alloc(); }));
  EXPECT_EQ(scope.Finish(), absl::ResourceExhaustedError("out of memory"));
}

TEST(Deferred, WhatIsInUseAtTheEndStays) {
  int made = 0;
  int dropped = 0;
  DeferredScope scope;
  const Tensor kept = Constant(kMany, 3, made);
  { const Tensor gone = Constant(kMany, 4, dropped); }
  ASSERT_TRUE(scope.Finish().ok());
  EXPECT_EQ(made, 1);
  EXPECT_EQ(dropped, 0);
  ForgetIdle();
  EXPECT_EQ(kept.data<float>()[kMany - 1], 3);
  EXPECT_EQ(made, 1);
  const Tensor after = Constant(kMany, 5, made);  // the scope is over
  EXPECT_EQ(made, 2);
}

// A constant made of another one needs it no longer when it is fixed.
TEST(Deferred, SourcesGoWithWhatWasMadeOfThem) {
  int made = 0;
  DeferredScope scope;
  const int64_t before = HeldBytes();
  Tensor twice;
  {
    const Tensor source = Constant(kMany, 3, made);
    twice = *MakeConstant(DType::kF32, {kMany}, [source](std::byte* out) {
      std::transform(source.span<float>().begin(), source.span<float>().end(),
                     reinterpret_cast<float*>(out), [](float x) { return 2 * x; });
      return absl::OkStatus();
    });
  }
  ASSERT_TRUE(scope.Finish().ok());
  EXPECT_EQ(twice.data<float>()[1], 6);
  EXPECT_EQ(made, 1);
  EXPECT_LT(HeldBytes(), before + kMany * 4 + 4096);
}

TEST(Deferred, AnErrorOfMakingThemIsTheScopes) {
  DeferredScope scope;
  const Tensor tensor = *MakeConstant(DType::kF32, {kMany}, [](std::byte* out) {
    out[0] = std::byte{1};
    return absl::DataLossError("'w.bin' changed while it was read");
  });
  EXPECT_THAT(tensor.span<float>().subspan(0, kFew), Each(0.0f));
  EXPECT_THAT(scope.Finish().message(), HasSubstr("'w.bin' changed"));
}

TEST(Deferred, AConstantIsNoMemoryToWriteInto) {
  int made = 0;
  DeferredScope scope;
  Tensor tensor = Constant(kMany, 3, made);
  const std::byte* const place = tensor.place();
  tensor.Resize(DType::kF32, {kFew});
  EXPECT_NE(tensor.place(), place);
  std::fill_n(tensor.mutable_data<float>(), kFew, 1.0f);
  ForgetIdle();
  EXPECT_THAT(tensor.span<float>(), Each(1.0f));
  EXPECT_EQ(made, 0);
  // What is written to is not forgotten either.
  Tensor written = Constant(kMany, 3, made);
  written.mutable_data<float>()[0] = 7;
  ForgetIdle();
  EXPECT_EQ(written.data<float>()[0], 7);
}

TEST(Deferred, AScopeInsideAnotherLeavesItOpen) {
  int made = 0;
  DeferredScope outer;
  {
    DeferredScope inner;
    EXPECT_TRUE(inner.Finish().ok());
  }
  const Tensor tensor = Constant(kMany, 3, made);
  EXPECT_EQ(made, 0);
  EXPECT_TRUE(outer.Finish().ok());
  EXPECT_EQ(made, 1);
}

TEST(MemoryLimit, CountsWhatIsHeld) {
  const int64_t before = HeldBytes();
  const Tensor tensor(DType::kF32, {1000});
  EXPECT_GE(HeldBytes(), before + 4000);
  {
    const MemoryLimit limit(HeldBytes() + 500);
    EXPECT_EQ(MaxTensorBytes(), 500);
    const HeldMemory more(300);
    EXPECT_EQ(MaxTensorBytes(), 200);
    EXPECT_THAT(TooLarge("the output").message(), HasSubstr("the output does not fit into memory"));
    const HeldMemory over(300);
    EXPECT_EQ(MaxTensorBytes(), 0);
  }
  EXPECT_EQ(MaxTensorBytes(), kMaxTensorBytes);
}

}  // namespace
}  // namespace beamwright::ops
