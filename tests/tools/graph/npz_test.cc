#include "ops/numpy/npz.h"

#include <cstring>
#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/graph/shell.h"

namespace beamwright::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_tools::Outcome;
using testing_tools::ReadWholeFile;
using testing_tools::RunProgram;
using testing_tools::TempPath;
using testing_tools::WriteFile;

constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kF64, DType::kI64,
                            DType::kI32, DType::kI16, DType::kI8,  DType::kU64,
                            DType::kU32, DType::kU16, DType::kU8,  DType::kBool};

void Python(const std::string& script) {
  const Outcome outcome =
      RunProgram({BEAMWRIGHT_NUMPY_PYTHON, "-c", absl::StrCat("import numpy as np\n", script)});
  ASSERT_EQ(outcome.exit_code, 0) << "this test needs NumPy: " << outcome.errors;
}

void ExpectSame(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.dtype(), b.dtype());
  ASSERT_EQ(a.shape(), b.shape());
  EXPECT_EQ(std::memcmp(a.bytes(), b.bytes(), static_cast<size_t>(a.num_bytes())), 0);
}

Tensor RandomTensor(DType dtype, std::mt19937& random) {
  Shape shape;
  for (unsigned rank = random() % 5; rank > 0; --rank) {
    shape.push_back(random() % 6);
  }
  Tensor tensor(dtype, shape);
  for (int64_t i = 0; i < tensor.num_bytes(); ++i) {
    tensor.mutable_bytes()[i] = std::byte(dtype == DType::kBool ? random() % 2 : random() % 256);
  }
  return tensor;
}

// A .npy file of version 1 with this header.
std::string Npy(const std::string& header, const std::string& elements) {
  std::string text("\x93NUMPY\x01\x00", 8);
  text.push_back(static_cast<char>(header.size() % 256));
  text.push_back(static_cast<char>(header.size() / 256));
  return text + header + elements;
}

void ExpectNpyError(const std::string& bytes, const std::string& piece) {
  const absl::StatusOr<Tensor> tensor = ParseNpy(bytes);
  ASSERT_FALSE(tensor.ok()) << piece;
  EXPECT_THAT(std::string(tensor.status().message()), HasSubstr(piece));
}

TEST(NpyTest, RoundTripsEveryTypeAndShape) {
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    for (const DType dtype : kTypes) {
      const Tensor tensor = RandomTensor(dtype, random);
      const absl::StatusOr<Tensor> back = ParseNpy(FormatNpy(tensor));
      ASSERT_TRUE(back.ok()) << back.status();
      ExpectSame(*back, tensor);
    }
  }
}

TEST(NpyTest, ElementsAreAligned) {
  for (const int64_t extent : std::vector<int64_t>{1, 10, 100'000'000'000}) {
    const std::string text = FormatNpy(Tensor::Zeros(DType::kU8, {extent, 0}));
    EXPECT_EQ(text.size() % 64, 0u);
    EXPECT_EQ(text.back(), '\n');
  }
}

TEST(NpyTest, Bf16IsWrittenAsF32) {
  Tensor tensor(DType::kBF16, {2});
  tensor.mutable_data<BFloat16>()[0] = ToBFloat16(1.5f);
  tensor.mutable_data<BFloat16>()[1] = ToBFloat16(-3e30f);
  const absl::StatusOr<Tensor> back = ParseNpy(FormatNpy(tensor));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_THAT(back->span<float>(), ElementsAre(1.5f, ToFloat(ToBFloat16(-3e30f))));
}

TEST(NpyTest, AcceptsOtherSpellings) {
  const absl::StatusOr<Tensor> tensor =
      ParseNpy(Npy("{\"shape\":(2,),\"descr\":\"=i2\",\"fortran_order\":True}", {5, 0, 6, 0}));
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_THAT(tensor->span<int16_t>(), ElementsAre(5, 6));
  const absl::StatusOr<Tensor> flags =
      ParseNpy(Npy("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", {2, 0}));
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_THAT(flags->span<bool>(), ElementsAre(true, false));
}

TEST(NpyTest, RefusesByName) {
  const auto header = [](const std::string& descr, const std::string& shape = "(1,)",
                         const std::string& order = "False") {
    return Npy(absl::StrCat("{'descr': ", descr, ", 'fortran_order': ", order, ", 'shape': ", shape,
                            ", }\n"),
               std::string(8, 'x'));
  };
  ExpectNpyError("", "not a .npy file");
  ExpectNpyError("PK\x03\x04", "not a .npy file");
  ExpectNpyError(std::string("\x93NUMPY\x04\x00", 8), "version 4");
  ExpectNpyError(std::string("\x93NUMPY\x01\x00\xff\x00{}", 12), "ends in its header");
  ExpectNpyError(header("'|O'"), "objects");
  ExpectNpyError(header("'>f8'"), "big-endian");
  ExpectNpyError(header("'<c8'"), "complex");
  ExpectNpyError(header("'<U2'"), "texts");
  ExpectNpyError(header("'<M8[s]'"), "'<M8[s]'");
  ExpectNpyError(header("[('a', '<f4')]"), "structures");
  ExpectNpyError(header("'<f4'", "(1, 2)", "True"), "Fortran order");
  ExpectNpyError(header("'<f4'", "(3,)"), "f32[3] needs 12 bytes, the file holds 8");
  ExpectNpyError(header("'<f4'", "(1,)"), "f32[1] needs 4 bytes, the file holds 8");
  ExpectNpyError(header("'<f4'", "(-2,)"), "malformed");
  ExpectNpyError(header("'<f4'", "(99999999999999999999,)"), "malformed");
  ExpectNpyError(header("'<f4'", "(4294967296, 4294967296)"), "2^48");
  ExpectNpyError(header("'<f4'", "2"), "malformed");
  ExpectNpyError(header("'<f4'", "(2,)", "Maybe"), "True or False");
  ExpectNpyError(Npy("{'descr': '<f4'}", ""), "lacks");
  ExpectNpyError(Npy("{'extra': 1}", ""), "'extra'");
  ExpectNpyError(Npy("{'descr': '<f4", ""), "closing quote");
}

TEST(NpzTest, NumpyReadsWhatIsWritten) {
  TensorMap tensors;
  tensors["a/b c"] = Tensor::Of<float>({2, 3}, std::vector<float>{1, -2, 3.5, 4, 5, 6e-20f});
  tensors["scalar"] = Tensor::Scalar<int64_t>(-7);
  tensors["empty"] = Tensor::Zeros(DType::kI32, {0, 4});
  tensors["flags"] = Tensor::Of<uint8_t>({2}, std::vector<uint8_t>{1, 255});
  const std::string path = TempPath("written.npz");
  ASSERT_TRUE(WriteNpz(path, tensors).ok());
  Python(absl::StrCat("d = np.load('", path, "')\n",
                      "assert sorted(d) == ['a/b c', 'empty', 'flags', 'scalar'], sorted(d)\n"
                      "a = d['a/b c']\n"
                      "assert a.dtype == np.float32 and a.shape == (2, 3)\n"
                      "assert (a == np.float32([[1, -2, 3.5], [4, 5, 6e-20]])).all()\n"
                      "assert d['scalar'].shape == () and d['scalar'] == -7\n"
                      "assert d['scalar'].dtype == np.int64\n"
                      "assert d['empty'].shape == (0, 4) and d['empty'].dtype == np.int32\n"
                      "assert list(d['flags']) == [1, 255]\n"));
  const std::string first = ReadWholeFile(path);
  ASSERT_TRUE(WriteNpz(path, tensors).ok());
  EXPECT_EQ(ReadWholeFile(path), first) << "equal tensors, equal bytes";
}

TEST(NpzTest, ReadsWhatNumpyWrites) {
  const std::string path = TempPath("numpy.npz");
  for (const char* save : {"np.savez", "np.savez_compressed"}) {
    Python(absl::StrCat("a = np.arange(20000, dtype=np.int32).reshape(100, 200)\n", save, "('",
                        path,
                        "', a=a, half=np.float16([0.5, -2]), wide=np.float64(1e300), "
                        "flags=np.array([[True], [False]]), sliced=a[::50, 1:3], "
                        "column=np.asfortranarray(np.arange(3)))\n"));
    const absl::StatusOr<TensorMap> tensors = ReadNpz(path);
    ASSERT_TRUE(tensors.ok()) << tensors.status();
    ASSERT_EQ(tensors->size(), 6u);
    EXPECT_EQ(tensors->at("a").shape(), (Shape{100, 200}));
    for (int i = 0; i < 20000; ++i) {
      ASSERT_EQ(tensors->at("a").data<int32_t>()[i], i);
    }
    EXPECT_EQ(ToFloat(tensors->at("half").data<Half>()[1]), -2);
    EXPECT_EQ(tensors->at("wide").rank(), 0);
    EXPECT_EQ(*tensors->at("wide").data<double>(), 1e300);
    EXPECT_EQ(tensors->at("flags").shape(), (Shape{2, 1}));
    EXPECT_THAT(tensors->at("sliced").span<int32_t>(), ElementsAre(1, 2, 10001, 10002));
    EXPECT_THAT(tensors->at("column").span<int64_t>(), ElementsAre(0, 1, 2));
  }
  NpzLimits limits;
  limits.max_bytes = 80'000;
  const absl::StatusOr<TensorMap> large = ParseNpz(ReadWholeFile(path), limits);
  ASSERT_FALSE(large.ok());
  EXPECT_THAT(std::string(large.status().message()), HasSubstr("more than the allowed size"));
  limits = NpzLimits();
  limits.max_arrays = 5;
  EXPECT_THAT(std::string(ParseNpz(ReadWholeFile(path), limits).status().message()),
              HasSubstr("6 entries; at most 5"));
}

TEST(NpzTest, RefusesNumpyFilesByName) {
  const std::string path = TempPath("bad.npz");
  const std::pair<const char*, const char*> cases[] = {
      {"bad=np.array([{}, 1], dtype=object)", "objects"},
      {"bad=np.zeros(3, dtype='>i4')", "big-endian"},
      {"bad=np.zeros((2, 3), order='F')", "Fortran"},
      {"bad=np.array(['text'])", "texts"}};
  for (const auto& [arguments, piece] : cases) {
    Python(absl::StrCat("np.savez('", path, "', good=np.zeros(2), ", arguments, ")\n"));
    const absl::StatusOr<TensorMap> tensors = ReadNpz(path);
    ASSERT_FALSE(tensors.ok()) << arguments;
    EXPECT_THAT(std::string(tensors.status().message()), HasSubstr(piece));
    EXPECT_THAT(std::string(tensors.status().message()), HasSubstr("entry 'bad.npy'"));
    EXPECT_THAT(std::string(tensors.status().message()), HasSubstr(path));
  }
  Python(absl::StrCat("import zipfile\nwith zipfile.ZipFile('", path,
                      "', 'w') as z: z.writestr('notes.txt', 'hello')\n"));
  EXPECT_THAT(std::string(ReadNpz(path).status().message()), HasSubstr("'notes.txt'"));
}

TEST(NpzTest, DamagedArchivesNeverDoHarm) {
  TensorMap tensors;
  std::mt19937 random(11);
  for (const DType dtype : kTypes) {
    tensors[std::string(Name(dtype))] = RandomTensor(dtype, random);
  }
  const std::string path = TempPath("damaged.npz");
  ASSERT_TRUE(WriteNpz(path, tensors).ok());
  const std::string sound = ReadWholeFile(path);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = sound;
    for (unsigned edits = 1 + random() % 3; edits > 0; --edits) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    if (random() % 4 == 0) {
      bytes.resize(random() % bytes.size());
    }
    const absl::StatusOr<TensorMap> result = ParseNpz(bytes);
    EXPECT_TRUE(result.ok() || !result.status().message().empty());
  }
}

TEST(NpzTest, Files) {
  EXPECT_EQ(ReadNpz("/nonexistent.npz").status().code(), absl::StatusCode::kNotFound);
  WriteFile(TempPath("text.npz"), "no archive");
  EXPECT_THAT(std::string(ReadNpz(TempPath("text.npz")).status().message()),
              HasSubstr("not a zip archive"));
  TensorMap one;
  one["x"] = Tensor::Scalar<float>(1);
  EXPECT_THAT(std::string(WriteNpz("/nonexistent/out.npz", one).message()),
              HasSubstr("/nonexistent/out.npz"));
  EXPECT_FALSE(WriteNpz(TempPath("none.npz"), {}).ok());
}

}  // namespace
}  // namespace beamwright::ops
