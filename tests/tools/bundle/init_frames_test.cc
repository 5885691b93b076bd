// What `beamwright-graph init` makes of the files that toolkits export of CTC models and
// transducers (tests/frames/exports), and what it says of those that can't be served. That the
// bundles are served with the right answers is tests/e2e/frame_exports_test.cc's business.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "beamwright/v1/model.pb.h"
#include "ops/numpy/npz.h"
#include "tests/support/test_data.h"
#include "tests/tools/graph/shell.h"
#include "tools/bundle/encoder_input.h"
#include "tools/bundle/init_parts.h"

namespace beamwright::tools {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string File(const std::string& name) {
  return testing_support::TestData(absl::StrCat("frames/exports/", name));
}

std::string FreshFolder() {
  static int count = 0;
  return ops::testing_tools::TempPath(absl::StrCat("frames-bundle", ++count));
}

struct Made {
  absl::Status status;
  std::string output;
  std::string out;
  std::string text;  // of model.textproto
  v1::ModelConfig config;
};

Made Init(InitOptions options) {
  Made made;
  made.out = FreshFolder();
  options.out = made.out;
  std::ostringstream output;
  made.status = InitBundle(options, output);
  made.output = output.str();
  std::ifstream file(made.out + "/model.textproto");
  std::ostringstream text;
  text << file.rdbuf();
  made.text = text.str();
  EXPECT_TRUE(made.text.empty() ||
              google::protobuf::TextFormat::ParseFromString(made.text, &made.config));
  // No search by frames reads a begin token or an end token.
  EXPECT_THAT(made.text, Not(HasSubstr("Missing")));
  return made;
}

InitOptions Three(const std::string& folder, const std::string& suffix = "") {
  InitOptions options;
  options.encoder = File(absl::StrCat(folder, "/encoder", suffix, ".onnx"));
  options.decoder = File(absl::StrCat(folder, "/decoder", suffix, ".onnx"));
  options.joiner = File(absl::StrCat(folder, "/joiner", suffix, ".onnx"));
  options.target_vocab = File(folder + "/tokens.txt");
  return options;
}

InitOptions One(const std::string& folder, const std::string& vocabulary) {
  InitOptions options;
  options.decoder = File(folder + "/model.onnx");
  options.target_vocab = File(folder + "/" + vocabulary);
  return options;
}

// Nothing is written, and the message has this piece.
void ExpectRefusal(const Made& made, const std::string& piece) {
  EXPECT_EQ(made.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(made.status.message(), HasSubstr(piece));
  EXPECT_FALSE(fs::exists(made.out)) << "something is written: " << made.output;
}

TEST(InitFrames, IcefallsThreeFilesAreATransducer) {
  const Made made = Init(Three("icefall_offline"));
  EXPECT_TRUE(made.status.ok()) << made.status;
  EXPECT_EQ(made.config.encoder().input(), "x");
  EXPECT_EQ(made.config.encoder().length_input(), "x_lens");
  const v1::TransducerConfig& transducer = made.config.transducer();
  EXPECT_EQ(transducer.encoder_output(), "encoder_out");
  EXPECT_EQ(transducer.frame_axis(), 0);
  EXPECT_EQ(transducer.context_size(), 2);
  EXPECT_EQ(transducer.blank(), 0);
  EXPECT_EQ(transducer.max_symbols(), 0);
  EXPECT_EQ(transducer.kind(), v1::TRANSDUCER_KIND_STANDARD);
  EXPECT_EQ(transducer.predictor().token_input(), "y");
  EXPECT_EQ(transducer.predictor().context_start(), -1);
  EXPECT_EQ(transducer.predictor().states_size(), 0);
  EXPECT_EQ(transducer.joiner().encoder_input(), "encoder_out");
  EXPECT_EQ(transducer.joiner().predictor_input(), "decoder_out");
  EXPECT_EQ(transducer.joiner().logits_kind(), v1::LOGITS_KIND_LOGITS);
  EXPECT_EQ(made.config.target().form(), v1::TEXT_FORM_PIECES);
  EXPECT_THAT(made.output,
              AllOf(HasSubstr("blank is column 0: '<blk>' is in the vocabulary"),
                    HasSubstr("reads the last 2 tokens"), HasSubstr("one token a frame at most"),
                    HasSubstr("which has a token and its id on each line")));
}

TEST(InitFrames, QuantizedFilesAreTakenAlike) {
  const Made made = Init(Three("icefall_offline", ".int8"));
  EXPECT_TRUE(made.status.ok()) << made.status;
  EXPECT_EQ(made.config.transducer().context_size(), 2);
}

// An encoder that was exported for streams, of recurrent layers and any length: from zeros, it is
// one for whole sources.
TEST(InitFrames, AnLstmEncodersStatesBeginAtZero) {
  const Made made = Init(Three("icefall_lstm"));
  EXPECT_TRUE(made.status.ok()) << made.status;
  EXPECT_THAT(made.output, AllOf(HasSubstr("encoder state 'state0' <- 'new_state0'"),
                                 HasSubstr("it begins at zero")));
  EXPECT_EQ(made.config.encoder().input(), "x");
  EXPECT_EQ(made.config.transducer().encoder_output(), "encoder_out");
}

TEST(InitFrames, EncodersThatOnlyStreamAreReadInChunks) {
  InitOptions options = Three("icefall_lstm");
  options.encoder = File("icefall_lstm/encoder-chunk.onnx");
  const Made lstm = Init(options);
  EXPECT_TRUE(lstm.status.ok()) << lstm.status;
  EXPECT_THAT(lstm.output,
              AllOf(HasSubstr("reads a source chunk by chunk, 9 frames, the next 4 later: metadata "
                              "has T and decode_chunk_len"),
                    HasSubstr("encoder states 'state0' <- 'new_state0' and so on, 2 of them"),
                    HasSubstr("sound becomes 80 log-mel features"),
                    HasSubstr("encodes sources of several requests together"),
                    HasSubstr("each gives 4 frames, and states of 512 bytes")));
  const v1::StreamingConfig& streaming = lstm.config.encoder().streaming();
  EXPECT_EQ(streaming.chunk(), 9);
  EXPECT_EQ(streaming.shift(), 4);
  EXPECT_EQ(streaming.tail(), 58);  // 0.66 s, less the 8 frames behind the first of a chunk
  EXPECT_FALSE(streaming.has_silence());
  EXPECT_EQ(streaming.states_size(), 2);
  EXPECT_TRUE(lstm.config.has_sound());

  options.encoder = File("icefall_zipformer2/encoder.onnx");
  const Made zipformer = Init(options);
  EXPECT_TRUE(zipformer.status.ok()) << zipformer.status;
  ASSERT_EQ(zipformer.config.encoder().streaming().states_size(), 8);
  EXPECT_EQ(zipformer.config.encoder().streaming().states(7).input(), "processed_lens");
  EXPECT_EQ(zipformer.config.encoder().streaming().states(7).output(), "new_processed_lens");

  InitOptions nemo = Three("nemo_tdt");
  nemo.encoder = File("nemo_streaming/encoder.onnx");
  const Made caches = Init(nemo);
  EXPECT_TRUE(caches.status.ok()) << caches.status;
  EXPECT_EQ(caches.config.encoder().length_axis(), 2);
  EXPECT_EQ(caches.config.encoder().length_input(), "length");
  EXPECT_EQ(caches.config.encoder().streaming().chunk(), 41);
  EXPECT_EQ(caches.config.encoder().streaming().shift(), 32);
  EXPECT_EQ(caches.config.encoder().streaming().states_size(), 3);
  EXPECT_NEAR(caches.config.encoder().streaming().silence(), -16.6355, 1e-4);
  EXPECT_EQ(caches.config.sound().kind(), v1::SOUND_KIND_NEMO);
  EXPECT_TRUE(caches.config.sound().has_normalize() && !caches.config.sound().normalize());
}

// A graph with one input f32 [rows, frames, width], or [rows, samples] where width is 0, and such
// metadata.
v1::ModelConfig SoundOf(const std::string& input, int64_t width, const ops::Metadata& metadata,
                        bool has_decoder, std::string* cmvn = nullptr) {
  ops::Graph graph;
  ops::Node parameter;
  parameter.name = input;
  parameter.op = "Parameter";
  ops::Shape dims = {-1, -1};
  if (width > 0) {
    dims.push_back(width);
  }
  parameter.outputs.push_back({ops::DType::kF32, ops::PartialShape(dims)});
  graph.nodes.push_back(parameter);
  graph.parameters.push_back(0);
  std::vector<std::string> reasons;
  const auto facts = FindSound(graph, v1::EncoderConfig(), metadata, has_decoder, reasons);
  EXPECT_EQ(facts.has_value(), reasons.size() == 1);
  v1::ModelConfig config;
  Files files;
  AddSound(facts, files, config);
  if (cmvn != nullptr) {
    *cmvn = files["am.mvn"];
  }
  return config;
}

TEST(InitFrames, MetadataSaysHowSoundBecomesFeatures) {
  const v1::ModelConfig icefall = SoundOf("x", 80, {{"model_author", "k2-fsa"}}, false);
  EXPECT_TRUE(icefall.has_sound());
  EXPECT_EQ(icefall.sound().ShortDebugString(), "");
  EXPECT_FALSE(
      SoundOf("x", 80, {{"model_author", "k2-fsa"}, {"feature", "whisper"}}, false).has_sound());
  EXPECT_FALSE(SoundOf("x", 40, {{"model_author", "k2-fsa"}}, false).has_sound());
  EXPECT_FALSE(SoundOf("x", 80, {}, false).has_sound());

  const v1::ModelConfig wenet = SoundOf("x", 80, {{"model_author", "wenet"}}, false);
  EXPECT_TRUE(wenet.sound().integer_scale() && wenet.sound().snip_edges());
  EXPECT_TRUE(wenet.sound().has_high_frequency());

  const v1::ModelConfig nemo = SoundOf(
      "audio_signal", 128, {{"normalize_type", "per_feature"}, {"subsampling_factor", "8"}}, false);
  EXPECT_EQ(nemo.sound().kind(), v1::SOUND_KIND_NEMO);
  EXPECT_EQ(nemo.sound().num_bins(), 128);
  EXPECT_FALSE(nemo.sound().has_normalize());
  EXPECT_EQ(nemo.frame_ms(), 80);
  EXPECT_FALSE(SoundOf("a", 80, {{"normalize_type", "all_features"}}, false).has_sound());

  std::string cmvn;
  const v1::ModelConfig sense = SoundOf("x", 14,
                                        {{"lfr_window_size", "7"},
                                         {"lfr_window_shift", "6"},
                                         {"normalize_samples", "0"},
                                         {"neg_mean", "-1,2"},
                                         {"inv_stddev", "0.5,3"}},
                                        false, &cmvn);
  EXPECT_EQ(sense.sound().num_bins(), 2);
  EXPECT_EQ(sense.sound().stack(), 7);
  EXPECT_EQ(sense.sound().stack_shift(), 6);
  EXPECT_TRUE(sense.sound().integer_scale());
  EXPECT_EQ(cmvn, "<AddShift> [ -1 2 ]\n<Rescale> [ 0.5 3 ]\n");

  EXPECT_EQ(SoundOf("input_features", 128, {}, true).sound().kind(), v1::SOUND_KIND_WHISPER);
  EXPECT_FALSE(SoundOf("input_features", 80, {}, false).has_sound());
  EXPECT_TRUE(SoundOf("input_values", 0, {}, false).sound().normalize());
  EXPECT_EQ(SoundOf("input_values", 0, {}, true).sound().kind(), v1::SOUND_KIND_SAMPLES);
  EXPECT_FALSE(SoundOf("input_values", 0, {}, true).sound().normalize());
}

// The same file without a part of its metadata.
TEST(InitFrames, EncodersThatDoNotSayHowTheyReadChunksAreRefused) {
  std::ifstream file(File("icefall_lstm/encoder-chunk.onnx"), std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  InitOptions options = Three("icefall_lstm");
  options.encoder = ops::testing_tools::TempPath("no-chunks.onnx");
  std::ofstream(options.encoder, std::ios::binary)
      << absl::StrReplaceAll(bytes.str(), {{"decode_chunk_len", "decode_chunk_lex"}});
  ExpectRefusal(Init(options),
                "it reads 9 frames a call, no more and no fewer ('x' [?, 9, 80]), and hands on 2 "
                "states such as 'state0' (model_type lstm), and its metadata does not say how it "
                "reads chunks");
}

// Their encoder may run where the frames are made.
TEST(InitFrames, WithoutAnEncoderRequestsBringFrames) {
  InitOptions options = Three("icefall_lstm");
  options.encoder = options.decoder;
  options.decoder = options.joiner;
  options.joiner.clear();
  const Made made = Init(options);
  EXPECT_TRUE(made.status.ok()) << made.status;
  EXPECT_FALSE(made.config.has_encoder());
  EXPECT_EQ(made.config.transducer().encoder_output(), "");
  EXPECT_EQ(made.config.transducer().joiner().graph(), "joiner.onnx");
  EXPECT_THAT(made.output, HasSubstr("no encoder: requests bring its frames"));
}

TEST(InitFrames, NemosPredictorAndJoinerAreOneGraph) {
  InitOptions options;
  options.encoder = File("nemo/encoder-model.onnx");
  options.decoder = File("nemo/decoder_joint-model.onnx");
  options.target_vocab = File("nemo/tokens.txt");
  const Made made = Init(options);
  EXPECT_TRUE(made.status.ok()) << made.status;
  EXPECT_EQ(made.config.encoder().length_axis(), 2);
  const v1::TransducerConfig& transducer = made.config.transducer();
  EXPECT_EQ(transducer.frame_axis(), 2);
  EXPECT_EQ(transducer.blank(), 17);
  EXPECT_EQ(transducer.max_symbols(), 10);
  EXPECT_EQ(transducer.joiner().graph(), "");
  EXPECT_EQ(transducer.joiner().encoder_input(), "encoder_outputs");
  EXPECT_EQ(transducer.predictor().length_input(), "target_length");
  ASSERT_EQ(transducer.predictor().states_size(), 2);
  EXPECT_EQ(transducer.predictor().states(1).input(), "input_states_2");
  EXPECT_EQ(transducer.predictor().states(1).output(), "output_states_2");
  EXPECT_EQ(made.config.sound().kind(), v1::SOUND_KIND_NEMO);
  EXPECT_EQ(made.config.frame_ms(), 20);
  EXPECT_THAT(made.output, HasSubstr("each normalised over the source: metadata has"));
  EXPECT_THAT(made.output, Not(HasSubstr("deviation 1 before it is sent")));
}

TEST(InitFrames, DurationsAreColumnsBehindTheBlank) {
  const Made made = Init(Three("nemo_tdt"));
  EXPECT_TRUE(made.status.ok()) << made.status;
  const v1::TransducerConfig& transducer = made.config.transducer();
  EXPECT_EQ(transducer.kind(), v1::TRANSDUCER_KIND_TOKEN_AND_DURATION);
  EXPECT_THAT(transducer.durations(), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(transducer.blank(), 17);
  ASSERT_EQ(transducer.predictor().states_size(), 2);
  EXPECT_EQ(transducer.predictor().states(1).input(), "onnx::LSTM_3");
  EXPECT_EQ(transducer.predictor().states(1).output(), "162");
  InitOptions told = Three("nemo_tdt");
  told.durations = {0, 1, 2, 4, 8};
  EXPECT_THAT(Init(told).config.transducer().durations(), ElementsAre(0, 1, 2, 4, 8));
  told.durations = {0, 1};
  ExpectRefusal(Init(told),
                "--durations: 2 are given, but behind tokens and blank the scores have 5");
}

TEST(InitFrames, CtcOutputsOfToolkits) {
  const Made icefall = Init(One("ctc_icefall", "tokens.txt"));
  EXPECT_TRUE(icefall.status.ok()) << icefall.status;
  EXPECT_EQ(icefall.config.ctc().encoder_output(), "log_probs");
  EXPECT_EQ(icefall.config.ctc().kind(), v1::LOGITS_KIND_LOG_PROBS);
  EXPECT_EQ(icefall.config.ctc().blank(), 0);
  const Made nemo = Init(One("ctc_nemo", "tokens.txt"));
  EXPECT_TRUE(nemo.status.ok()) << nemo.status;
  EXPECT_EQ(nemo.config.ctc().blank(), 17);
  EXPECT_EQ(nemo.config.encoder().length_axis(), 2);
  const Made wav2vec = Init(One("ctc_wav2vec", "vocab.json"));
  EXPECT_TRUE(wav2vec.status.ok()) << wav2vec.status;
  EXPECT_EQ(wav2vec.config.ctc().blank(), 0);
  EXPECT_EQ(wav2vec.config.target().form(), v1::TEXT_FORM_CHARACTERS);
  EXPECT_THAT(wav2vec.output,
              AllOf(HasSubstr("blank is column 0: '<pad>'"), HasSubstr("'|' separates words")));
  EXPECT_THAT(wav2vec.config.target().pad_token(), IsEmpty());  // it is the blank
}

// Dictionaries of OCR models have no line for the blank, which comes first.
TEST(InitFrames, CtcOutputsOfPictures) {
  const Made crnn = Init(One("ocr_crnn", "alphabet.txt"));
  EXPECT_TRUE(crnn.status.ok()) << crnn.status;
  EXPECT_EQ(crnn.config.ctc().blank(), 0);
  EXPECT_EQ(crnn.config.encoder().length_axis(), 3);
  EXPECT_THAT(ops::testing_tools::ReadWholeFile(crnn.out + "/target.vocab"),
              ::testing::StartsWith("<blank>\n0\n1\n"));
  EXPECT_EQ(crnn.config.picture().filter(), v1::PICTURE_FILTER_PILLOW_BILINEAR);
  EXPECT_THAT(crnn.output, HasSubstr("pictures, PNG or JPEG: grey, levels from -1 to 1"));
  const Made paddle = Init(One("ocr_paddle", "dict.txt"));
  EXPECT_TRUE(paddle.status.ok()) << paddle.status;
  EXPECT_EQ(paddle.config.ctc().kind(), v1::LOGITS_KIND_PROBS);
  EXPECT_EQ(paddle.config.picture().order(), v1::PICTURE_ORDER_BGR);
  EXPECT_EQ(paddle.config.picture().min_width(), 320);
  EXPECT_THAT(paddle.config.picture().scale(), ::testing::ElementsAre(2));
  EXPECT_THAT(ops::testing_tools::ReadWholeFile(paddle.out + "/target.vocab"),
              ::testing::EndsWith("\n \n"));
}

// Another dictionary for the picture model, whose scores have two more columns than its dictionary
// has lines: the blank before them and the space behind.
Made InitWithDictionary(const std::string& dictionary) {
  InitOptions options = One("ocr_paddle", "dict.txt");
  options.target_vocab = ops::testing_tools::TempPath("other-dict.txt");
  std::ofstream(options.target_vocab, std::ios::binary) << dictionary;
  return Init(options);
}

int PaddleTokens() {
  std::istringstream lines(ops::testing_tools::ReadWholeFile(File("ocr_paddle/dict.txt")));
  int count = 0;
  for (std::string line; std::getline(lines, line);) {
    ++count;
  }
  return count;
}

std::string Letters(int count, const std::string& end = "\n") {
  std::string lines;
  for (int i = 0; i < count; ++i) {
    absl::StrAppend(&lines, std::string(1, static_cast<char>('A' + i)), end);
  }
  return lines;
}

// The English dictionary of PaddleOCR ends with a space, and its models have one more behind it.
TEST(InitFrames, APictureModelMayHaveTwoColumnsForTheSpace) {
  const int tokens = PaddleTokens();
  const Made made = InitWithDictionary(Letters(tokens - 1) + " \n");
  EXPECT_TRUE(made.status.ok()) << made.status;
  EXPECT_THAT(ops::testing_tools::ReadWholeFile(made.out + "/target.vocab"),
              ::testing::EndsWith("\n \n \n"));
  EXPECT_THAT(made.output, HasSubstr("2 columns are written as ' '"));
  EXPECT_EQ(made.config.target().form(), v1::TEXT_FORM_CHARACTERS);
}

TEST(InitFrames, DictionariesOfPicturesAreTakenAsTheyAre) {
  const int tokens = PaddleTokens();
  // Windows line ends, a byte order mark, and a token twice.
  const Made windows = InitWithDictionary("\xEF\xBB\xBF" + Letters(tokens - 1, "\r\n") + "A\r\n");
  EXPECT_TRUE(windows.status.ok()) << windows.status;
  EXPECT_THAT(ops::testing_tools::ReadWholeFile(windows.out + "/target.vocab"),
              ::testing::StartsWith("<blank>\nA\nB\n"));
  EXPECT_THAT(windows.output, HasSubstr("2 columns are written as 'A'"));
  // An empty line inside, and at the end.
  const Made inside = InitWithDictionary("A\n\n" + Letters(tokens - 2));
  EXPECT_TRUE(inside.status.ok()) << inside.status;
  EXPECT_THAT(inside.output, HasSubstr("1 column has no text"));
  const Made last = InitWithDictionary(Letters(tokens - 1) + "\n");
  EXPECT_TRUE(last.status.ok()) << last.status;
  EXPECT_THAT(last.output, HasSubstr("1 of the empty lines at the vocabulary's end is a token"));
  // Tokens of several characters, '▁' and '|' are characters of pictures.
  const Made longer = InitWithDictionary(Letters(tokens - 4) + "|\nch\n▁\n \n");
  EXPECT_TRUE(longer.status.ok()) << longer.status;
  EXPECT_EQ(longer.config.target().form(), v1::TEXT_FORM_CHARACTERS);
  EXPECT_THAT(ops::testing_tools::ReadWholeFile(longer.out + "/target.vocab"),
              HasSubstr("\n|\nch"));
}

TEST(InitFrames, NamesOfTheSpaceAreWrittenAsASpace) {
  for (const std::string name : {"<space>", "<sp>", "[space]"}) {
    const Made made = InitWithDictionary(Letters(PaddleTokens() - 2) + name + "\n|\n");
    EXPECT_TRUE(made.status.ok()) << made.status;
    const std::string vocabulary = ops::testing_tools::ReadWholeFile(made.out + "/target.vocab");
    EXPECT_THAT(vocabulary, ::testing::EndsWith("\n \n|\n \n")) << name;
  }
}

TEST(InitFrames, BlankIsToldOrAskedFor) {
  InitOptions options = One("ctc_nemo", "tokens.txt");
  options.target_vocab.clear();
  const Made ids = Init(options);
  EXPECT_TRUE(ids.status.ok()) << ids.status;
  EXPECT_EQ(ids.config.ctc().blank(), 17);
  EXPECT_EQ(ids.config.target().size(), 18);
  EXPECT_THAT(ids.output, HasSubstr("the last one, as NeMo has it"));
  InitOptions unknown = One("ctc_wav2vec", "vocab.json");
  unknown.target_vocab.clear();
  ExpectRefusal(Init(unknown), "it is unknown which column of the scores is blank");
  unknown.blank = "0";
  EXPECT_EQ(Init(unknown).config.target().size(), 18);
  InitOptions wrong = One("ctc_icefall", "tokens.txt");
  wrong.blank = "<nothing>";
  ExpectRefusal(Init(wrong),
                "--blank: '<nothing>' is neither in the vocabulary nor a column, 0 to 19");
}

// icefall's tokens.txt goes on with symbols of decoding graphs.
TEST(InitFrames, SymbolsThatNoColumnHasAreLeftOut) {
  std::ostringstream tokens;
  tokens << std::ifstream(File("ctc_icefall/tokens.txt")).rdbuf() << "#0 20\n#1 21\n";
  InitOptions options = One("ctc_icefall", "tokens.txt");
  options.target_vocab = ops::testing_tools::TempPath("more-tokens.txt");
  std::ofstream(options.target_vocab) << tokens.str();
  const Made made = Init(options);
  EXPECT_TRUE(made.status.ok()) << made.status;
  EXPECT_THAT(made.output, HasSubstr("'#0' and what follows are left out"));
  EXPECT_THAT(ops::testing_tools::ReadWholeFile(made.out + "/target.vocab"), Not(HasSubstr("#")));
}

TEST(InitFrames, FilesThatDoNotFitAreNamed) {
  InitOptions other = Three("icefall_offline");
  other.target_vocab = File("nemo/tokens.txt");
  ExpectRefusal(Init(other), "is it another model's vocabulary?");
  InitOptions order = Three("icefall_offline");
  std::swap(order.decoder, order.joiner);
  ExpectRefusal(Init(order), "the predictor's inputs are 'encoder_out' f32[?, 32], 'decoder_out'");
  InitOptions begun = Three("icefall_offline");
  begun.special.begin = "<s>";
  ExpectRefusal(Init(begun), "--begin: is for models with a decoder");
}

// A copy of a file of tests/frames/exports with a change.
std::string ChangedFile(const std::string& name,
                        const std::function<void(onnx::ModelProto&)>& change) {
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(ops::testing_tools::ReadWholeFile(File(name))));
  change(model);
  static int count = 0;
  const std::string path = ops::testing_tools::TempPath(absl::StrCat("changed", ++count, ".onnx"));
  std::ofstream(path, std::ios::binary) << model.SerializeAsString();
  return path;
}

// A predictor of the last token alone, with icefall's metadata. Its table has a row for each of
// the 20 columns of the joiner but for those that are missing.
std::string PredictorOfOneToken(int missing) {
  return ChangedFile("icefall_offline/decoder.onnx", [missing](onnx::ModelProto& model) {
    constexpr int kWidth = 32;  // of what the joiner reads
    onnx::GraphProto& graph = *model.mutable_graph();
    const int64_t rows = 20 - missing;
    graph.clear_initializer();
    graph.clear_node();
    onnx::TensorProto& table = *graph.add_initializer();
    table.set_name("table");
    table.set_data_type(onnx::TensorProto::FLOAT);
    table.add_dims(rows);
    table.add_dims(kWidth);
    table.set_raw_data(std::string(static_cast<size_t>(rows) * kWidth * sizeof(float), '\0'));
    onnx::TensorProto& shape = *graph.add_initializer();
    shape.set_name("shape");
    shape.set_data_type(onnx::TensorProto::INT64);
    shape.add_dims(2);
    shape.add_int64_data(-1);
    shape.add_int64_data(kWidth);
    onnx::NodeProto& gather = *graph.add_node();
    gather.set_op_type("Gather");
    gather.add_input("table");
    gather.add_input(graph.input(0).name());
    gather.add_output("read");
    onnx::NodeProto& reshape = *graph.add_node();
    reshape.set_op_type("Reshape");
    reshape.add_input("read");
    reshape.add_input("shape");
    reshape.add_output(graph.output(0).name());
    graph.mutable_input(0)
        ->mutable_type()
        ->mutable_tensor_type()
        ->mutable_shape()
        ->mutable_dim(1)
        ->set_dim_value(1);
    for (onnx::StringStringEntryProto& entry : *model.mutable_metadata_props()) {
      if (entry.key() == "context_size") {
        entry.set_value("1");
      }
    }
  });
}

// Only the blank may be without a row: nothing feeds it.
TEST(InitFrames, APredictorsTableHasARowForEachToken) {
  InitOptions options = Three("icefall_offline");
  options.decoder = PredictorOfOneToken(1);
  EXPECT_THAT(Init(options).status.message(), Not(HasSubstr("the predictor's table")));
  options.decoder = PredictorOfOneToken(2);
  ExpectRefusal(Init(options),
                "the predictor's table has 18 rows, but the joiner has scores for 20 tokens");
}

// Where the context is one token, there is no -1 to read before the blank.
TEST(InitFrames, AContextOfOneTokenBeginsWithTheBlank) {
  InitOptions options = Three("icefall_offline");
  options.decoder = PredictorOfOneToken(0);
  const Made made = Init(options);
  EXPECT_TRUE(made.status.ok()) << made.status;
  EXPECT_EQ(made.config.transducer().context_size(), 1);
  EXPECT_FALSE(made.config.transducer().predictor().has_context_start());
}

TEST(InitFrames, DurationsAreOfTransducers) {
  InitOptions options = One("ctc_icefall", "tokens.txt");
  options.kind = InitKind::kCtc;
  options.durations = {0, 1};
  ExpectRefusal(Init(options), "--durations: is for transducers; this is a CTC model");
}

TEST(InitFrames, AGraphOfTwoSourcesIsNotGuessedToBeCtc) {
  InitOptions options = One("ctc_icefall", "tokens.txt");
  EXPECT_TRUE(SearchesByFrames(options));
  options.decoder = ChangedFile("ctc_icefall/model.onnx", [](onnx::ModelProto& model) {
    onnx::ValueInfoProto& second = *model.mutable_graph()->add_input();
    second = model.graph().input(0);
    second.set_name("second");
  });
  EXPECT_FALSE(SearchesByFrames(options));
}

// Ids [rows, length] to scores [rows, length, 3] of labels, by a table with `rows` rows.
std::string TaggerFile(int rows) {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.set_name("tagger");
  onnx::TensorProto& table = *graph.add_initializer();
  table.set_name("table");
  table.set_data_type(onnx::TensorProto::FLOAT);
  table.add_dims(rows);
  table.add_dims(3);
  for (int i = 0; i < rows * 3; ++i) {
    table.add_float_data(static_cast<float>(i % 4));
  }
  onnx::NodeProto& node = *graph.add_node();
  node.set_op_type("Gather");
  node.add_input("table");
  node.add_input("chars");
  node.add_output("emissions");
  const auto port = [](onnx::ValueInfoProto& value, const std::string& name, int type, int width) {
    value.set_name(name);
    onnx::TypeProto::Tensor& tensor = *value.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(type);
    tensor.mutable_shape()->add_dim()->set_dim_param("rows");
    tensor.mutable_shape()->add_dim()->set_dim_param("length");
    if (width > 0) {
      tensor.mutable_shape()->add_dim()->set_dim_value(width);
    }
  };
  port(*graph.add_input(), "chars", onnx::TensorProto::INT64, 0);
  port(*graph.add_output(), "emissions", onnx::TensorProto::FLOAT, 3);
  const std::string path = FreshFolder() + ".onnx";
  std::ofstream(path) << model.SerializeAsString();
  return path;
}

std::string Lines(const std::string& content) {
  const std::string path = FreshFolder() + ".txt";
  std::ofstream(path) << content;
  return path;
}

TEST(InitFrames, ScoresOfOtherLabelsThanTheTokensAreATaggers) {
  InitOptions options;
  options.decoder = TaggerFile(8);
  EXPECT_TRUE(SearchesByFrames(options));
  options.source_vocab = Lines("<pad>\na\nb\nc\nd\ne\nf\ng\n");
  options.target_vocab = Lines("in\nbegin\nend\n");
  const std::string crf = FreshFolder() + ".npz";
  ASSERT_TRUE(
      ops::WriteNpz(crf, {{"transitions", ops::Tensor::Zeros(ops::DType::kF32, {3, 3})}}).ok());
  options.transitions = crf;
  const Made made = Init(options);
  EXPECT_TRUE(made.status.ok()) << made.status;
  EXPECT_EQ(made.config.tags().encoder_output(), "emissions");
  EXPECT_EQ(made.config.tags().kind(), v1::LOGITS_KIND_LOGITS);
  EXPECT_EQ(made.config.tags().transitions(), "transitions.txt");
  EXPECT_EQ(made.config.encoder().input(), "chars");
  EXPECT_EQ(made.config.source().form(), v1::TEXT_FORM_CHARACTERS);
  EXPECT_EQ(made.config.target().form(), v1::TEXT_FORM_WHITESPACE);
  EXPECT_THAT(made.output, AllOf(HasSubstr("a tagger: each position of a source gets a label"),
                                 HasSubstr("tried   it loads, and decodes a made-up source")));
}

// As of a language model: only a flag, or a vocabulary of sources, says that it is a tagger.
TEST(InitFrames, ScoresOfAsManyLabelsAsTokensMayBeALanguageModels) {
  InitOptions options;
  options.decoder = TaggerFile(3);
  EXPECT_FALSE(SearchesByFrames(options));
  options.kind = InitKind::kTags;
  EXPECT_TRUE(SearchesByFrames(options));
  options.target_vocab = Lines("a\nb\n");
  ExpectRefusal(Init(options), "the scores have 3 columns, but");
  options.target_vocab = Lines("a\n\nb\n");
  const Made made = Init(options);
  EXPECT_TRUE(made.status.ok()) << made.status;
  EXPECT_EQ(made.config.target().form(), v1::TEXT_FORM_CHARACTERS);
}

TEST(InitFrames, TheLengthAxisThatIsGivenIsTaken) {
  InitOptions options = One("ctc_nemo", "tokens.txt");
  EXPECT_EQ(Init(options).config.encoder().length_axis(), 2);
  options.length_axis = 1;
  EXPECT_EQ(Init(options).config.encoder().length_axis(), 1);
}

}  // namespace
}  // namespace beamwright::tools
