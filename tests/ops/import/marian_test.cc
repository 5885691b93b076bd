// Marian's .bin files as graphs, and files that are damaged or made to harm: an error that names
// the array or the option, and no memory beyond what the file has.
#include "ops/import/marian.h"

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/import/graph_file.h"
#include "ops/loop/operators.h"
#include "tests/support/marian_model.h"
#include "tests/support/run_graph.h"

namespace beamwright::ops {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_support::MarianBin;
using testing_support::MarianItem;
using testing_support::MarianItems;
using testing_support::RandomMarianModel;

std::string GoodFile() { return MarianBin(MarianItems(RandomMarianModel(1), true)); }

// "" if both graphs can be read and inferred.
std::string Fault(const std::string& content) {
  for (const MarianPart part : {MarianPart::kEncoder, MarianPart::kDecoder}) {
    absl::StatusOr<Graph> graph = ReadMarian(InputFile::OfContent(content), part);
    if (!graph.ok()) {
      return std::string(graph.status().message());
    }
    const absl::StatusOr<GraphInfo> info = InferGraph(*graph, Operators());
    if (!info.ok()) {
      return std::string(info.status().message());
    }
  }
  return "";
}

std::string WithNumber(std::string content, size_t offset, uint64_t number) {
  std::memcpy(content.data() + offset, &number, sizeof(number));
  return content;
}

TEST(MarianTest, AFileHasTwoGraphsByName) {
  const std::string content = GoodFile();
  std::vector<std::string> opened;
  const auto open = [&](const std::string& name) -> absl::StatusOr<InputFilePtr> {
    opened.push_back(name);
    return InputFile::OfContent(content);
  };
  const auto encoder = ReadGraph("m/model.bin#encoder", open);
  ASSERT_TRUE(encoder.ok()) << encoder.status();
  const auto decoder = ReadGraph("m/model.bin#decoder", open);
  ASSERT_TRUE(decoder.ok()) << decoder.status();
  EXPECT_EQ(opened, (std::vector<std::string>{"m/model.bin", "m/model.bin"}));
  EXPECT_EQ(encoder->parameters.size(), 1u);
  EXPECT_EQ(decoder->parameters.size(), 5u);  // token, position, two cells, memory
  EXPECT_EQ(PortName(*decoder, decoder->results[0]), "logits");
  EXPECT_THAT(ReadGraph("m/model.bin", open).status().message(), HasSubstr(".bin#decoder"));
  EXPECT_THAT(ReadGraph("m/model.npz", open).status().message(), HasSubstr("init"));
}

// Whether its embeddings have 8 bits or 32, a file that holds the same numbers encodes alike.
TEST(MarianTest, ThePlainAndThe8BitFormOfTheSameNumbersEncodeAlike) {
  const auto model = testing_support::MarianDequantised(RandomMarianModel(1));
  std::vector<std::vector<Tensor>> memory;
  for (const bool quantised : {false, true}) {
    const std::string content = MarianBin(MarianItems(model, quantised));
    auto graph = ReadMarian(InputFile::OfContent(content), MarianPart::kEncoder);
    ASSERT_TRUE(graph.ok()) << graph.status();
    auto run = testing_support::RunAsItIs(
        *std::move(graph), {Tensor::Of<int64_t>({2, 3}, std::vector<int64_t>{5, 7, 0, 9, 2, 0})});
    ASSERT_TRUE(run.ok()) << run.status();
    memory.push_back(*std::move(run));
  }
  for (int64_t i = 0; i < memory[0][0].num_elements(); ++i) {
    EXPECT_NEAR(memory[0][0].data<float>()[i], memory[1][0].data<float>()[i], 1e-4);
  }
}

// Cut anywhere, and with each byte of the heads changed.
TEST(MarianTest, DamagedFilesAreErrors) {
  const std::string good = GoodFile();
  ASSERT_EQ(Fault(good), "");
  for (size_t size = 0; size + 256 < good.size(); size += size < 400 ? 1 : 97) {
    EXPECT_NE(Fault(good.substr(0, size)), "") << size;
  }
  for (size_t at = 0; at < 64 * 32; at += 3) {
    std::string damaged = good;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    Fault(damaged);  // an error or a file that reads otherwise, within its bytes
  }
}

TEST(MarianTest, ClaimsBeyondTheFileAreRefused) {
  const std::string good = GoodFile();
  constexpr uint64_t kHuge = ~uint64_t{0};
  EXPECT_THAT(Fault(WithNumber(good, 0, 2)), HasSubstr("it begins with the number 2"));
  EXPECT_THAT(Fault(WithNumber(good, 8, kHuge)), HasSubstr("at most 10000"));
  EXPECT_THAT(Fault(WithNumber(good, 16, kHuge)), HasSubstr("the name of an array takes"));
  EXPECT_THAT(Fault(WithNumber(good, 32, kHuge)), HasSubstr("has rank"));
  EXPECT_THAT(Fault(WithNumber(good, 40, kHuge)), HasSubstr("is cut short"));
  EXPECT_THAT(Fault(WithNumber(good, 40, 0)), HasSubstr("has 0 bytes of elements"));
  std::vector<MarianItem> items = MarianItems(RandomMarianModel(1), false);
  items[0].shape = {1 << 30, 1 << 30};
  EXPECT_THAT(Fault(MarianBin(items)), HasSubstr("'Wemb'"));
  items[0].shape = {-1, -1};
  EXPECT_THAT(Fault(MarianBin(items)), HasSubstr("'Wemb'"));
}

TEST(MarianTest, TypesOfOtherBuildsAreRefusedWithTheWayOut) {
  std::vector<MarianItem> items = MarianItems(RandomMarianModel(1), false);
  items[0].type = 0x1801;
  EXPECT_THAT(Fault(MarianBin(items)), AllOf(HasSubstr("'Wemb'"), HasSubstr("FBGEMM")));
  items[0].type = 0x10001;
  EXPECT_THAT(Fault(MarianBin(items)),
              AllOf(HasSubstr("marian-dev"), HasSubstr("--gemm-type intgemm8")));
  items = MarianItems(RandomMarianModel(1), true);
  for (MarianItem& item : items) {
    if (item.type == 0x4101) {
      item.bytes.replace(item.bytes.size() - 4, 4, std::string(4, '\0'));
    }
  }
  EXPECT_THAT(Fault(MarianBin(items)), HasSubstr("multiplier 0"));
}

TEST(MarianTest, OptionsThatMakeNoSenseAreErrors) {
  for (const auto& [line, fault] : std::vector<std::pair<std::string, std::string>>{
           {"no colon", "is not 'name: value'"},
           {"type: transformer", "option 'type' is there twice"}}) {
    auto model = RandomMarianModel(1);
    model.further_options = line + "\n";
    EXPECT_THAT(Fault(MarianBin(MarianItems(model, false))), HasSubstr(fault));
  }
  auto model = RandomMarianModel(1);
  model.heads = 3;
  EXPECT_THAT(Fault(MarianBin(MarianItems(model, false))),
              HasSubstr("a multiple of transformer-heads, 3"));
  model.heads = 4;
  model.encoder_layers = 100'000;
  EXPECT_THAT(Fault(MarianBin(MarianItems(model, false))), HasSubstr("[1, 256]"));
  model.encoder_layers = 3;
  EXPECT_THAT(Fault(MarianBin(MarianItems(model, false))),
              HasSubstr("array 'encoder_l3_self_Wk' is missing"));
  std::vector<MarianItem> items = MarianItems(RandomMarianModel(1), false);
  items.pop_back();
  EXPECT_THAT(Fault(MarianBin(items)), HasSubstr("has no options"));
}

}  // namespace
}  // namespace beamwright::ops
