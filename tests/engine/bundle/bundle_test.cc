#include "engine/bundle/bundle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "ops/tensor/tensor_memory.h"
#include "tests/engine/bundle/temp_bundle.h"

namespace beamwright::bundle {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// `sha256sum` of the distribution, an implementation that is not ours.
std::string SystemDigest(const std::string& path) {
  FILE* pipe = popen(("sha256sum < '" + path + "'").c_str(), "r");
  char digest[65] = {};
  EXPECT_EQ(fread(digest, 1, 64, pipe), 64u);
  pclose(pipe);
  return digest;
}

class BundleTest : public ::testing::Test {
 protected:
  BundleTest() { WriteBundle(temp_, "word/3"); }

  absl::Status Load(const std::string& relative = "word/3") {
    return LoadBundle(temp_.At(relative)).status();
  }
  std::string Message(const std::string& relative = "word/3") {
    return std::string(Load(relative).message());
  }
  // The config with `from` replaced by `to`.
  void Edit(const std::string& from, const std::string& to) {
    const std::string good = GoodConfig();
    ASSERT_THAT(good, HasSubstr(from));
    temp_.Write("word/3/model.textproto", absl::StrReplaceAll(good, {{from, to}}));
  }
  void WriteManifest(const std::string& folder = "word/3") {
    std::string manifest;
    for (const char* name : {"model.textproto", "source.vocab", "target.vocab", "graph.xml"}) {
      const std::string path = folder + "/" + name;
      absl::StrAppend(&manifest, SystemDigest(temp_.At(path)), "  ", name, "\n");
    }
    temp_.Write(folder + "/MANIFEST.sha256", manifest);
  }

  TempFolder temp_;
};

TEST_F(BundleTest, LoadsAndTakesNameAndVersionFromTheFolders) {
  absl::StatusOr<Bundle> bundle = LoadBundle(temp_.At("word/3/"));
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  EXPECT_EQ(bundle->name, "word");
  EXPECT_EQ(bundle->version, "3");
  EXPECT_EQ(bundle->decoder.name, "copy");
  ASSERT_TRUE(bundle->encoder.has_value());
  EXPECT_EQ(bundle->source->size(), 4);
  EXPECT_EQ(bundle->target->size(), 5);
  EXPECT_EQ(bundle->target->begin_id(), 0);
  EXPECT_THAT(bundle->target->end_ids(), ::testing::ElementsAre(1));
}

TEST_F(BundleTest, ABareFolderHasVersionOneAndItsOwnName) {
  WriteBundle(temp_, "speech.v2");
  absl::StatusOr<Bundle> bundle = LoadBundle(temp_.At("speech.v2/."));
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  EXPECT_EQ(bundle->name, "speech.v2");
  EXPECT_EQ(bundle->version, "1");
}

TEST_F(BundleTest, TheConfiguredNameWins) {
  Edit("format_version: 1", "format_version: 1 name: \"other\"");
  EXPECT_EQ(LoadBundle(temp_.At("word/3"))->name, "other");
}

TEST_F(BundleTest, SyntaxErrorsNameLineAndColumnAndAllAreTold) {
  temp_.Write("word/3/model.textproto", "format_version: 1\nencoder { grap: \"x\" }\n");
  EXPECT_THAT(Message(),
              AllOf(HasSubstr("word/3"), HasSubstr("model.textproto: 2:15: "), HasSubstr("grap")));
  temp_.Write("word/3/model.textproto", "format_version: }\n");
  EXPECT_THAT(Message(), HasSubstr("1:17: "));
}

TEST_F(BundleTest, SyntaxErrorsTellWhatWouldDo) {
  temp_.Write("word/3/model.textproto", "\xEF\xBB\xBF" + GoodConfig());
  EXPECT_THAT(Message(), HasSubstr("model.textproto: 1:1: starts with a byte order mark"));
  temp_.Write("word/3/model.textproto", "format_version: 1\ntarget { form: TEXT_FORM_WORDS }\n");
  EXPECT_THAT(Message(), AllOf(HasSubstr("2:"), HasSubstr("\"TEXT_FORM_WORDS\""),
                               HasSubstr("Allowed are TEXT_FORM_IDS, "),
                               HasSubstr("TEXT_FORM_WHITESPACE"), Not(HasSubstr("UNSPECIFIED"))));
}

TEST_F(BundleTest, FormatVersionIsJudgedFirst) {
  Edit("format_version: 1", "");
  EXPECT_THAT(Message(), HasSubstr("format_version: is not set; this server reads 1"));
  Edit("format_version: 1", "format_version: 2 limits { max_beam_size: 999 }");
  EXPECT_THAT(Message(), AllOf(HasSubstr("format_version: is 2; this server reads 1"),
                               Not(HasSubstr("max_beam_size"))));
}

TEST_F(BundleTest, AllWrongFieldsAreNamedAtOnce) {
  temp_.Write("word/3/model.textproto", R"(format_version: 1
    name: "a/b" encoder { length_axis: -1 } decoder { states { } memory { } }
    source { end_tokens: ["a", "b"] }
    default_options { beam_size: 0 length_penalty_alpha: nan } limits { max_beam_size: 300 })");
  const std::string message = Message();
  for (const char* field :
       {"name: 'a/b' cannot name a model", "encoder.graph: is not set",
        "encoder.length_axis: -1 is not an axis", "decoder.graph: is not set",
        "decoder.states[0].input: is not set", "decoder.memory[0].input: is not set",
        "source.end_tokens: has 2 tokens", "target.begin_token: is not set",
        "target.end_tokens: is not set",
        "default_options.beam_size: 0 is outside [1, 256] hypotheses",
        "default_options.length_penalty_alpha: nan is not a finite number",
        "limits.max_beam_size: 300 is outside [0, 256] hypotheses"}) {
    EXPECT_THAT(message, HasSubstr(field));
  }
}

TEST_F(BundleTest, EncoderOutputsNeedAnEncoder) {
  Edit("encoder { graph: \"graph.xml\" }", "");
  EXPECT_THAT(Message(), HasSubstr("source.form: without an encoder"));
  Edit("decoder {",
       "decoder { memory { input: \"m\" encoder_output: \"e\" } "
       "states { input: \"s\" encoder_output: \"e\" }");
  EXPECT_TRUE(Load().ok());
  temp_.Write("word/3/model.textproto",
              absl::StrReplaceAll(temp_.Read("word/3/model.textproto"),
                                  {{"encoder { graph: \"graph.xml\" }", ""}}));
  EXPECT_THAT(Message(), AllOf(HasSubstr("decoder.memory[0].encoder_output"),
                               HasSubstr("decoder.states[0].encoder_output")));
}

// CTC prefix scores read the frames that such a model is searched by.
TEST(ModelConfigTest, ModelsSearchedByFramesTakeNoCtcScorer) {
  const auto parsed = [](const std::string& scorer) {
    return ParseModelConfig(
               "format_version: 1 ctc {} encoder { graph: \"e.onnx\" input: \"x\" } "
               "target { vocabulary: \"v\" } scorers { name: \"lm\" " +
               scorer + " }")
        .status();
  };
  EXPECT_TRUE(parsed("ngram { file: \"words.arpa\" }").ok());
  EXPECT_TRUE(
      parsed("language_model { graph: \"lm.onnx\" token_input: \"t\" logits_output: \"y\" }").ok());
  EXPECT_THAT(std::string(parsed("ctc { encoder_output: \"y\" }").message()),
              HasSubstr("scorers[0].ctc: is only for models with a decoder; those with ctc or "
                        "transducer take scorers of the kinds ngram and language_model"));
}

TEST_F(BundleTest, ALengthInputNeedsItsKind) {
  Edit("encoder {", "encoder { length_input: \"n\"");
  EXPECT_THAT(Message(),
              HasSubstr("encoder.length_kind, encoder.length_input: set both or neither"));
  Edit("encoder {", "encoder { length_kind: LENGTH_INPUT_MASK");
  EXPECT_THAT(Message(),
              HasSubstr("encoder.length_kind, encoder.length_input: set both or neither"));
}

TEST_F(BundleTest, OneEntryForEachInputOfTheDecoder) {
  Edit("decoder {",
       "decoder { states { input: \"s\" output: \"t\" } states { input: \"s\" output: \"t\" } "
       "memory { input: \"m\" } memory { input: \"m\" } memory { input: \"s\" }");
  EXPECT_THAT(Message(), AllOf(HasSubstr("decoder.states[1].input: 's' is given twice"),
                               HasSubstr("decoder.states[1].output: 't' is given twice"),
                               HasSubstr("decoder.memory[1].input: 'm' is given twice"),
                               HasSubstr("decoder.memory[2].input: 's' is one of decoder.states")));
}

TEST_F(BundleTest, DefaultsMustFitTheLimits) {
  // A default shrinks to fit.
  Edit("format_version: 1", "format_version: 1 limits { max_beam_size: 2 }");
  EXPECT_TRUE(Load().ok());
  Edit("format_version: 1",
       "format_version: 1 default_options { beam_size: 4 } limits { max_beam_size: 2 }");
  EXPECT_THAT(Message(), HasSubstr("default_options.beam_size: 4 is above limits.max_beam_size 2"));
  Edit("format_version: 1",
       "format_version: 1 default_options { n_best: 5 max_length: 9 } "
       "limits { max_target_length: 8 }");
  EXPECT_THAT(
      Message(),
      AllOf(HasSubstr("default_options.n_best: 5 is above the beam size 4"),
            HasSubstr("default_options.max_length: 9 is above limits.max_target_length 8")));
}

TEST_F(BundleTest, TextThatIsNotUtf8IsRefused) {
  Edit("format_version: 1", "format_version: 1 # \xff");
  EXPECT_THAT(Message(), HasSubstr("model.textproto: not UTF-8 at byte 20"));
  Edit("format_version: 1", "format_version: 1 description: \"\\377\"");
  EXPECT_THAT(Message(), HasSubstr("description: not UTF-8 at byte 0"));
}

TEST_F(BundleTest, MissingFilesAreNamedWithTheirField) {
  const auto expect = [&](const char* file, const char* field) {
    const std::string content = temp_.Read(std::string("word/3/") + file);
    temp_.Remove(std::string("word/3/") + file);
    EXPECT_EQ(Load().code(), absl::StatusCode::kNotFound) << file;
    EXPECT_THAT(Message(), AllOf(HasSubstr(field), HasSubstr(file)));
    temp_.Write(std::string("word/3/") + file, content);
  };
  expect("model.textproto", "word/3");
  expect("graph.xml", "encoder.graph");
  expect("source.vocab", "source: vocabulary");
  expect("target.vocab", "target: vocabulary");
  Edit("decoder { graph: \"graph.xml\"", "decoder { graph: \"x.xml\"");
  EXPECT_THAT(Message(), HasSubstr("decoder.graph"));
  EXPECT_EQ(Load("nothing").code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message("word/3/model.textproto"), HasSubstr("is not a folder"));
}

TEST_F(BundleTest, GraphErrorsNameFieldAndFile) {
  temp_.Write("word/3/bad.xml", "<net><layers>");
  Edit("decoder { graph: \"graph.xml\"", "decoder { graph: \"bad.xml\"");
  EXPECT_THAT(Message(), HasSubstr("decoder.graph: 'bad.xml'"));
  temp_.Write("word/3/bad.onnx", "no protobuf");
  Edit("decoder { graph: \"graph.xml\"", "decoder { graph: \"bad.onnx\"");
  EXPECT_THAT(Message(), HasSubstr("decoder.graph: 'bad.onnx': is not an ONNX model"));
  Edit("decoder { graph: \"graph.xml\"", "decoder { graph: \"bad.pb\"");
  EXPECT_THAT(Message(), HasSubstr("decoder.graph: 'bad.pb' is not the name of a graph file"));
}

TEST_F(BundleTest, SpecialTokensMustBeInTheVocabulary) {
  Edit("end_tokens: \"</s>\"", "end_tokens: \"</t>\" pad_token: \"<p>\"");
  EXPECT_THAT(Message(), HasSubstr("model.textproto: target: pad_token: '<p>' is not in the "
                                   "vocabulary; end_tokens[0]: '</t>' is not in the vocabulary"));
}

TEST_F(BundleTest, PathsThatLeaveTheFolderAreRefused) {
  temp_.Write("secret.vocab", "<unk>\na\n");
  for (const std::string& path : {std::string("../../secret.vocab"), temp_.At("secret.vocab"),
                                  std::string("x/../../../secret.vocab"), std::string("a\\000b")}) {
    Edit("\"source.vocab\"", "\"" + path + "\"");
    EXPECT_EQ(Load().code(), absl::StatusCode::kInvalidArgument) << path;
    EXPECT_THAT(Message(), HasSubstr("source: vocabulary: '")) << path;
  }
  Edit("\"source.vocab\"", "\"link.vocab\"");
  temp_.Link("word/3/link.vocab", "../../secret.vocab");
  EXPECT_EQ(Load().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(), AllOf(HasSubstr("'link.vocab' links to"), HasSubstr("secret.vocab")));
  // A folder whose name only starts like the root's is not inside it.
  temp_.Write("word-private/v", "<unk>\na\n");
  temp_.Remove("word/3/link.vocab");
  temp_.Link("word/3/link.vocab", "../../word-private/v");
  EXPECT_EQ(Load().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(BundleTest, VersionsMayShareFilesButABareBundleHasNoNeighbours) {
  temp_.Write("word/shared.vocab", "<unk>\na\n");
  Edit("\"source.vocab\"", "\"link.vocab\"");
  temp_.Link("word/3/link.vocab", "../shared.vocab");
  EXPECT_TRUE(Load().ok()) << Load();
  WriteBundle(temp_, "bare");
  temp_.Write("neighbour.vocab", "<unk>\na\n");
  temp_.Remove("bare/source.vocab");
  temp_.Link("bare/source.vocab", "../neighbour.vocab");
  EXPECT_EQ(Load("bare").code(), absl::StatusCode::kInvalidArgument);
}

// A cache keeps contents in one folder and links to them, graphs and weights like all else.
TEST_F(BundleTest, LinksMayLeadIntoFoldersThatAreNamed) {
  temp_.Write("blobs/1", temp_.Read("word/3/source.vocab"));
  temp_.Write("blobs/2", temp_.Read("word/3/graph.xml"));
  temp_.Remove("word/3/source.vocab");
  temp_.Link("word/3/source.vocab", "../../blobs/1");
  temp_.Remove("word/3/graph.xml");
  temp_.Link("word/3/graph.xml", "../../blobs/2");
  EXPECT_THAT(Message(), AllOf(HasSubstr("graph.xml' links to"), HasSubstr("outside of")));
  for (const std::string& root : {temp_.At("blobs"), temp_.path()}) {
    const absl::StatusOr<Bundle> bundle = LoadBundle(temp_.At("word/3"), {root});
    EXPECT_TRUE(bundle.ok()) << bundle.status();
  }
  temp_.Write("other/1", "");
  const absl::StatusOr<Bundle> refused = LoadBundle(temp_.At("word/3"), {temp_.At("other")});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(BundleTest, KubeletMountsAreFollowed) {
  // A volume mounted at the bundle: every file a link through `..data`.
  WriteBundle(temp_, "bundle/..2024_01");
  temp_.Link("bundle/..data", "..2024_01");
  for (const char* name : {"model.textproto", "source.vocab", "target.vocab", "graph.xml"}) {
    temp_.Link(std::string("bundle/") + name, std::string("..data/") + name);
  }
  absl::StatusOr<Bundle> bundle = LoadBundle(temp_.At("bundle"));
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  EXPECT_EQ(bundle->name, "bundle");
  // One mounted at the model: the version folder itself is a link.
  WriteBundle(temp_, "model/..2024_02/1");
  temp_.Link("model/..data", "..2024_02");
  temp_.Link("model/1", "..data/1");
  bundle = LoadBundle(temp_.At("model/1"));
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  EXPECT_EQ(bundle->name, "model");
  EXPECT_EQ(bundle->version, "1");
}

TEST_F(BundleTest, AManifestThatFitsIsAccepted) {
  WriteManifest();
  EXPECT_TRUE(Load().ok()) << Load();
  EXPECT_TRUE(LoadBundle(std::string(BEAMWRIGHT_SOURCE_DIR) + "/models/g2p-en/1").ok());
}

TEST_F(BundleTest, AnyChangeOfAListedFileIsDataLossNamingIt) {
  temp_.Write("word/3/NOTES", "not read by the server");
  WriteManifest();
  const std::string manifest = temp_.Read("word/3/MANIFEST.sha256");
  temp_.Write("word/3/MANIFEST.sha256",
              manifest + SystemDigest(temp_.At("word/3/NOTES")) + " *NOTES\n");
  ASSERT_TRUE(Load().ok()) << Load();
  for (const char* name :
       {"model.textproto", "source.vocab", "target.vocab", "graph.xml", "NOTES"}) {
    const std::string path = std::string("word/3/") + name;
    const std::string content = temp_.Read(path);
    temp_.Write(path, content + "\n");
    EXPECT_EQ(Load().code(), absl::StatusCode::kDataLoss) << name;
    EXPECT_THAT(Message(), AllOf(HasSubstr(absl::StrCat("'", name, "'")), HasSubstr("SHA-256")));
    temp_.Write(path, content);
  }
  temp_.Remove("word/3/NOTES");
  EXPECT_EQ(Load().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(), HasSubstr("NOTES"));
}

// Its weights are packed meanwhile.
TEST_F(BundleTest, ALargeFileIsHashedDuringALoad) {
  temp_.Write("word/3/weights.bin", std::string((size_t{4} << 20) + 5, 'w'));
  temp_.Write("word/3/MANIFEST.sha256",
              SystemDigest(temp_.At("word/3/weights.bin")) + "  weights.bin\n");
  for (const bool changed : {false, true}) {
    if (changed) {
      temp_.Write("word/3/weights.bin", std::string((size_t{4} << 20) + 5, 'v'));
    }
    EXPECT_EQ(absl::IsDataLoss(Load()), changed) << Load();
    ops::DeferredScope load;
    EXPECT_TRUE(Load().ok()) << Load();
    const absl::Status status = load.Finish();
    EXPECT_EQ(absl::IsDataLoss(status), changed) << status;
    EXPECT_TRUE(!changed || absl::StrContains(status.message(), "'weights.bin' is not the file"))
        << status;
  }
}

TEST_F(BundleTest, AMalformedManifestIsRefusedWithItsLine) {
  const std::string digest(64, 'a');
  for (const std::string& line : {std::string("hello"), digest, digest + "  ",
                                  digest + "x graph.xml", std::string(63, 'a') + "g  graph.xml",
                                  digest + "  ../../etc/passwd", digest + "  /etc/passwd"}) {
    temp_.Write("word/3/MANIFEST.sha256", "\n" + line + "\n");
    EXPECT_EQ(Load().code(), absl::StatusCode::kInvalidArgument) << line;
    EXPECT_THAT(Message(), HasSubstr("MANIFEST.sha256: line 2")) << line;
  }
  WriteManifest();
  temp_.Write("word/3/MANIFEST.sha256",
              temp_.Read("word/3/MANIFEST.sha256") + digest + "  ./graph.xml\n");
  EXPECT_THAT(Message(), HasSubstr("line 5: './graph.xml' is listed already"));
}

TEST_F(BundleTest, ATextFileIsRefusedByItsSizeBeforeItIsRead) {
  // Sparse: such a file has its size and takes no space on the disk.
  const auto grow = [&](const char* name, uintmax_t bytes) {
    std::filesystem::resize_file(temp_.At(absl::StrCat("word/3/", name)), bytes);
  };
  grow("source.vocab", uintmax_t{3} << 30);
  EXPECT_EQ(Load().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(), AllOf(HasSubstr("source: vocabulary: '"), HasSubstr("source.vocab' has "),
                               HasSubstr("3221225472 bytes; at most 67108864 are allowed")));
  WriteBundle(temp_, "word/3");
  grow("model.textproto", uintmax_t{3} << 30);
  EXPECT_THAT(Message(), HasSubstr("at most 4194304 are allowed"));
  WriteBundle(temp_, "word/3");
  temp_.Write("word/3/golden.jsonl", "{}");
  grow("golden.jsonl", uintmax_t{3} << 30);
  EXPECT_THAT(Message(), AllOf(HasSubstr("golden.jsonl' has "), HasSubstr("at most 67108864")));
}

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(GoldenFileTest, AFileMayBeMissing) {
  const TempFolder temp;
  temp.Write("m/1/model.textproto", "");
  EXPECT_EQ(*ReadGolden(temp.At("m/1")), "");
  EXPECT_EQ(*ReadWarmUp(temp.At("m/1")), "");
  temp.Write("m/1/warmup.jsonl", "{}");
  EXPECT_EQ(*ReadWarmUp(temp.At("m/1")), "{}");
}

// The bundle was meant to have one.
TEST(GoldenFileTest, ALinkThatLeadsNowhereIsAnError) {
  const TempFolder temp;
  temp.Write("m/1/model.textproto", "");
  temp.Link("m/1/golden.jsonl", "nowhere");
  temp.Link("m/1/warmup.jsonl", "nowhere");
  EXPECT_THAT(std::string(ReadGolden(temp.At("m/1")).status().message()),
              AllOf(HasSubstr("cannot open"), HasSubstr("golden.jsonl")));
  EXPECT_THAT(std::string(ReadWarmUp(temp.At("m/1")).status().message()),
              AllOf(HasSubstr("cannot open"), HasSubstr("warmup.jsonl")));
}

}  // namespace

}  // namespace beamwright::bundle
