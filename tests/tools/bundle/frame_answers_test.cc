// Models that search by frames, as toolkits export them: made into bundles by `init`, run by the
// engine, asked for what a slow search over ONNX Runtime answered (tests/frames/answers.py).
// Only the files say to init which port is which, so a wrong guess is a wrong answer here.
// The default models that search by frames are asked for words (tests/frames/word_answers.py).
#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "include/beamwright/engine.h"
#include "tests/support/test_data.h"
#include "tests/tools/graph/shell.h"
#include "tools/bundle/check.h"
#include "tools/bundle/init.h"

namespace beamwright::tools {
namespace {

using google::protobuf::Message;
using google::protobuf::Struct;

struct Exported {
  std::string name;
  std::string folder;
  std::vector<std::string> graphs;
  std::string vocabulary;
  std::string answers = "answers.jsonl";
  // 8-bit files: where a value lies between two steps, sums in another order may choose the other.
  double tolerance = 2e-4;
  // Of encoders that are read chunk by chunk: instead of the bundle's.
  int tail = -1;
  // A default model: there is a bundle.
  bool shipped = false;
};

void PrintTo(const Exported& tested, std::ostream* out) { *out << tested.name; }

std::vector<Exported> AllExported() {
  constexpr double kOf8Bits = 0.05;
  return {
      {"icefall", "icefall_offline", {"encoder", "decoder", "joiner"}, "tokens.txt"},
      {"icefall_int8",
       "icefall_offline",
       {"encoder.int8", "decoder.int8", "joiner.int8"},
       "tokens.txt",
       "answers.int8.jsonl",
       kOf8Bits},
      {"icefall_lstm", "icefall_lstm", {"encoder", "decoder", "joiner"}, "tokens.txt"},
      {"icefall_lstm_chunks",
       "icefall_lstm",
       {"encoder-chunk", "decoder", "joiner"},
       "tokens.txt",
       "answers.chunks.jsonl",
       2e-4,
       3},
      {"icefall_zipformer2",
       "icefall_zipformer2",
       {"encoder", "../icefall_lstm/decoder", "../icefall_lstm/joiner"},
       "../icefall_lstm/tokens.txt",
       "answers.jsonl",
       2e-4,
       3},
      {"nemo", "nemo", {"encoder-model", "decoder_joint-model"}, "tokens.txt"},
      {"nemo_tdt", "nemo_tdt", {"encoder", "decoder", "joiner"}, "tokens.txt"},
      {"ctc_icefall", "ctc_icefall", {"model"}, "tokens.txt"},
      {"ctc_icefall_int8",
       "ctc_icefall",
       {"model.int8"},
       "tokens.txt",
       "answers.int8.jsonl",
       kOf8Bits},
      {"ctc_nemo", "ctc_nemo", {"model"}, "tokens.txt"},
      {"ctc_wav2vec", "ctc_wav2vec", {"model"}, "vocab.json"},
      {"wenet", "wenet", {"encoder", "ctc"}, "units.txt"},
      {"wenet_whole", "wenet_whole", {"encoder", "ctc"}, "units.txt"},
      {"wenet_sherpa", "wenet_sherpa", {"model"}, "units.txt"},
      {"ocr_crnn", "ocr_crnn", {"model"}, "alphabet.txt"},
      {"ocr_paddle", "ocr_paddle", {"model"}, "dict.txt"},
      {"g2p_en_ctc", "", {}, "", "g2p-en-ctc.jsonl", 2e-4, -1, true},
      {"g2p_en_transducer", "", {}, "", "g2p-en-transducer.jsonl", 2e-4, -1, true},
  };
}

struct Question {
  v1::Source source;
  v1::DecodeOptions options;
  std::vector<int32_t> tokens;  // the best answer, and its sum over all alignments
  double full_log_prob = 0;
  std::vector<v1::TargetTokens> targets;
  std::vector<double> log_probs;
};

void Parse(const Message& json, Message& to) {
  std::string text;
  ASSERT_TRUE(google::protobuf::util::MessageToJsonString(json, &text).ok());
  const auto status = google::protobuf::util::JsonStringToMessage(text, &to);
  ASSERT_TRUE(status.ok()) << status.ToString() << text;
}

std::string Folder(const Exported& tested) {
  return tested.shipped
             ? std::string(BEAMWRIGHT_SOURCE_DIR "/tests/frames/words/")
             : testing_support::TestData(absl::StrCat("frames/exports/", tested.folder, "/"));
}

std::vector<Question> ReadQuestions(const Exported& tested) {
  std::ifstream file(Folder(tested) + tested.answers);
  std::vector<Question> questions;
  for (std::string line; std::getline(file, line);) {
    Struct object;
    EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(line, &object).ok());
    Question& question = questions.emplace_back();
    Parse(object.fields().at("source").struct_value(), question.source);
    Parse(object.fields().at("options").struct_value(), question.options);
    question.options.set_full_sum(true);
    question.options.set_n_best(question.options.beam_size());
    for (const auto& token : object.fields().at("tokens").list_value().values()) {
      question.tokens.push_back(static_cast<int32_t>(token.number_value()));
    }
    question.full_log_prob = object.fields().at("full_log_prob").number_value();
    for (const auto& target : object.fields().at("targets").list_value().values()) {
      Parse(target.struct_value(), question.targets.emplace_back());
    }
    for (const auto& value : object.fields().at("log_probs").list_value().values()) {
      question.log_probs.push_back(value.number_value());
    }
  }
  return questions;
}

void SetTail(const std::string& path, int tail) {
  if (tail < 0) {
    return;
  }
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  const std::string changed = std::regex_replace(text.str(), std::regex("    tail: [0-9]+\n"),
                                                 absl::StrCat("    tail: ", tail, "\n"));
  ASSERT_NE(changed, text.str());
  std::ofstream(path) << changed;
}

// The bundle that init makes of the files.
std::string MadeBundle(const Exported& tested) {
  InitOptions options;
  std::vector<std::string> paths;
  for (const std::string& graph : tested.graphs) {
    paths.push_back(absl::StrCat(Folder(tested), graph, ".onnx"));
  }
  options.encoder = paths.size() > 1 ? paths[0] : "";
  options.decoder = paths.size() == 3 ? paths[1] : paths.back();
  options.joiner = paths.size() == 3 ? paths[2] : "";
  options.target_vocab = Folder(tested) + tested.vocabulary;
  options.out = ops::testing_tools::TempPath(absl::StrCat("frame-answers-", tested.name));
  std::filesystem::remove_all(options.out);  // of the test before
  std::ostringstream output;
  const absl::Status made = InitBundle(options, output);
  EXPECT_TRUE(made.ok()) << made << output.str();
  SetTail(options.out + "/model.textproto", tested.tail);
  return options.out;
}

std::string ShippedBundle(const Exported& tested) {
  return absl::StrCat(BEAMWRIGHT_SOURCE_DIR, "/models/",
                      absl::StrReplaceAll(tested.name, {{"_", "-"}}), "/1");
}

class FrameAnswersTest : public ::testing::TestWithParam<Exported> {
 protected:
  void SetUp() override {
    const Exported& tested = GetParam();
    auto model = TryBundle(tested.shipped ? ShippedBundle(tested) : MadeBundle(tested), "");
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    engine::EngineOptions settings;
    settings.num_threads = 1;
    auto engine = engine::Engine::Start(settings);
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
    questions_ = ReadQuestions(tested);
    ASSERT_GE(questions_.size(), 3u);
  }

  std::shared_ptr<const engine::DecodeModel> model_;
  std::unique_ptr<engine::Engine> engine_;
  std::vector<Question> questions_;
};

TEST_P(FrameAnswersTest, TheBestAnswerIsThatOfASlowSearch) {
  for (const Question& question : questions_) {
    const auto decoded = engine_->DecodeAndWait(model_, question.source, question.options);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    // The order of answers is that of what the search merged; the oracle's that of full sums.
    const auto& answers = decoded->hypotheses();
    const auto best = std::max_element(answers.begin(), answers.end(),
                                       [](const v1::Hypothesis& a, const v1::Hypothesis& b) {
                                         return a.full_log_prob() < b.full_log_prob();
                                       });
    ASSERT_NE(best, answers.end());
    EXPECT_THAT(best->tokens(), ::testing::ElementsAreArray(question.tokens));
    EXPECT_NEAR(best->full_log_prob(), question.full_log_prob, GetParam().tolerance);
    EXPECT_EQ(best->token_frames_size(), best->tokens_size());
  }
}

// The bytes of all hypotheses.
std::string HypothesesOf(const v1::Decoded& decoded) {
  std::string bytes;
  for (const v1::Hypothesis& hypothesis : decoded.hypotheses()) {
    absl::StrAppend(&bytes, hypothesis.SerializeAsString(), "\n");
  }
  return bytes;
}

// Sources of different lengths at the same time get the bits that each gets alone.
TEST_P(FrameAnswersTest, NeighboursChangeNothing) {
  std::vector<std::string> alone;
  for (const Question& question : questions_) {
    const auto decoded = engine_->DecodeAndWait(model_, question.source, question.options);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    alone.push_back(HypothesesOf(*decoded));
  }
  std::vector<std::string> together(2 * questions_.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < together.size(); ++i) {
    threads.emplace_back([&, i] {
      const Question& question = questions_[i % questions_.size()];
      const auto decoded = engine_->DecodeAndWait(model_, question.source, question.options);
      together[i] = decoded.ok() ? HypothesesOf(*decoded) : decoded.status().ToString();
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (size_t i = 0; i < together.size(); ++i) {
    EXPECT_TRUE(together[i] == alone[i % alone.size()]) << i;
  }
}

TEST_P(FrameAnswersTest, GivenTokensAreScoredOverAllAlignments) {
  for (const Question& question : questions_) {
    v1::ScoreSource source;
    *source.mutable_source() = question.source;
    source.mutable_targets()->Add(question.targets.begin(), question.targets.end());
    // Given tokens are scored over alignments with any number of tokens a frame, by default.
    v1::ScoreOptions options;
    if (model_->config().has_transducer()) {
      options.set_max_symbols_per_frame(std::max(model_->config().transducer().max_symbols(), 1));
    }
    const auto scored = engine_->ScoreAndWait(model_, source, options);
    ASSERT_TRUE(scored.ok()) << scored.status();
    ASSERT_EQ(scored->targets_size(), static_cast<int>(question.log_probs.size()));
    for (int i = 0; i < scored->targets_size(); ++i) {
      EXPECT_NEAR(scored->targets(i).hypothesis().log_prob(),
                  question.log_probs[static_cast<size_t>(i)], GetParam().tolerance);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, FrameAnswersTest, ::testing::ValuesIn(AllExported()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace beamwright::tools
