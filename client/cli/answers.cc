// The forms in which commands print answers: AnswerTable for people (rank, score, log-probability,
// text, and below it alignment and words), AnswerJson for programs (one object a line), Subtitle
// for subtitles.
//
// ToJson prints any message with the names of its .proto file. A status may have details of types
// that this program does not know, as a newer server sends them; protobuf cannot print such a
// detail and fails as a whole, so that these details are left out (DropUnknownDetails).
//
// AlignedTokens writes "word-position" pairs as the tools for alignments read them. It splits the
// text at white space, or by characters, whichever gives as many pieces as there are tokens; else
// it writes ids.
//
// ResultTable appends a line for each recording, so that an interrupted run can go on.
//
// Example of AnswerTable:
//
//   good morning
//     rank    score  log-prob  text
//        1  -0.4120   -0.8240  guten Morgen
//                              guten-0 Morgen-1
#include "client/cli/answers.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "beamwright/v1/source_errors.pb.h"
#include "client/cli/output.pb.h"
#include "client/cli/sources.h"
#include "google/protobuf/any.pb.h"
#include "google/protobuf/util/json_util.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"

namespace beamwright::client {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

struct Row {
  std::string rank, score, log_prob, text;
  std::string alignment;  // on a new line, unless it is empty
  std::string words;      // as alignment
};

// Links the types of errors' details: nothing else here uses them, so the linker would leave them
// out, and printing could not look them up.
void KeepDetailTypes() {
  google::protobuf::LinkMessageReflection<google::rpc::BadRequest>();
  google::protobuf::LinkMessageReflection<google::rpc::ErrorInfo>();
  google::protobuf::LinkMessageReflection<google::rpc::RetryInfo>();
  google::protobuf::LinkMessageReflection<v1::SourceErrors>();
}

// Leaves out of the errors in `message` the details that can't be printed: a server may send types
// that this program doesn't know.
void DropUnknownDetails(Message& message) {
  if (auto* error = google::protobuf::DynamicCastToGenerated<google::rpc::Status>(&message)) {
    auto& details = *error->mutable_details();
    const auto unknown = [](const google::protobuf::Any& detail) {
      std::string json;
      return !google::protobuf::util::MessageToJsonString(detail, &json).ok();
    };
    details.erase(std::remove_if(details.begin(), details.end(), unknown), details.end());
    return;
  }
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field->is_repeated()) {
      DropUnknownDetails(*message.GetReflection()->MutableMessage(&message, field));
    }
  }
}

// Words as "word 0.98 [0.99] (0.12-0.40 s)": confidence, posterior, time.
std::string WordList(const v1::Hypothesis& hypothesis) {
  std::vector<std::string> words;
  for (const v1::Word& word : hypothesis.words()) {
    std::string& line =
        words.emplace_back(absl::StrFormat("%s %.2f", Printable(word.text()), word.confidence()));
    if (word.has_posterior() && word.posterior() < 1) {
      absl::StrAppendFormat(&line, " [%.2f]", word.posterior());
    }
    if (word.has_begin_ms()) {
      absl::StrAppendFormat(&line, " (%.2f-%.2f s)", word.begin_ms() / 1000, word.end_ms() / 1000);
    }
  }
  return absl::StrJoin(words, ", ");
}

// The characters of a text, with a sign for a space, which separates pairs.
std::vector<std::string> Characters(absl::string_view text) {
  std::vector<std::string> characters;
  while (!text.empty()) {
    const auto size = static_cast<size_t>(std::max(Utf8Length(text), 1));
    characters.emplace_back(text[0] == ' ' ? "\xE2\x90\xA3" : text.substr(0, size));
    text.remove_prefix(size);
  }
  return characters;
}

}  // namespace

// There may be one token more than pieces: the end token, which has no text. Example: text "guten
// Morgen", tokens {17, 4, 2}, positions {0, 1, 1}: "guten-0 Morgen-1". A text that has neither
// words nor characters in this number: "17-0 4-1 2-1".
std::string AlignedTokens(const std::string& text, absl::Span<const int32_t> tokens,
                          absl::Span<const int32_t> positions) {
  std::vector<std::string> words = absl::StrSplit(text, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  const size_t size = std::min(tokens.size(), positions.size());
  const auto fits = [&] { return words.size() == size || words.size() + 1 == size; };
  if (!fits()) {
    words = Characters(text);
  }
  const bool named = fits();
  std::vector<std::string> pairs;
  for (size_t i = 0; i < size; ++i) {
    if (!named) {
      pairs.push_back(absl::StrCat(tokens[i], "-", positions[i]));
    } else if (i < words.size()) {  // the end token has no text
      pairs.push_back(absl::StrCat(Printable(words[i]), "-", positions[i]));
    }
  }
  return absl::StrJoin(pairs, " ");
}

std::string HypothesisText(const v1::Hypothesis& hypothesis) {
  std::string text = hypothesis.text().empty() && !hypothesis.tokens().empty()
                         ? absl::StrCat("ids ", absl::StrJoin(hypothesis.tokens(), " "))
                         : Printable(hypothesis.text());
  if (hypothesis.finish_reason() == v1::FINISH_REASON_LENGTH) {
    text += " [cut at the maximum length]";
  } else if (hypothesis.finish_reason() == v1::FINISH_REASON_DEADLINE) {
    text += " [under way at the deadline]";
  } else if (hypothesis.finish_reason() == v1::FINISH_REASON_SHUTDOWN) {
    text += " [under way when the server ended]";
  }
  return text;
}

// The first three columns are as wide as their widest cell and right-aligned; text is last, since
// characters of it may be two columns wide. Lines below a row begin where the text begins.
std::string AnswerTable(const std::string& title, const v1::Decoded& decoded) {
  std::vector<Row> rows = {{"rank", "score", "log-prob", "text", "", ""}};
  for (const v1::Hypothesis& hypothesis : decoded.hypotheses()) {
    rows.push_back({absl::StrCat(rows.size()), absl::StrFormat("%.4f", hypothesis.score()),
                    absl::StrFormat("%.4f", hypothesis.log_prob()), HypothesisText(hypothesis),
                    AlignedTokens(hypothesis.text(), hypothesis.tokens(), hypothesis.alignment()),
                    WordList(hypothesis)});
  }
  size_t rank_width = 0, score_width = 0, log_prob_width = 0;
  for (const Row& row : rows) {
    rank_width = std::max(rank_width, row.rank.size());
    score_width = std::max(score_width, row.score.size());
    log_prob_width = std::max(log_prob_width, row.log_prob.size());
  }
  std::string table = absl::StrCat(Bold(title), "\n");
  for (const Row& row : rows) {
    absl::StrAppendFormat(&table, "  %*s  %*s  %*s  %s\n", static_cast<int>(rank_width), row.rank,
                          static_cast<int>(score_width), row.score,
                          static_cast<int>(log_prob_width), row.log_prob, row.text);
    const size_t text_column = 2 + rank_width + 2 + score_width + 2 + log_prob_width + 2;
    for (const std::string& line : {row.alignment, row.words}) {
      if (!line.empty()) {
        absl::StrAppend(&table, std::string(text_column, ' '), line, "\n");
      }
    }
  }
  if (!decoded.unknown_positions().empty()) {
    absl::StrAppend(&table, "  not in the vocabulary, read as the unknown token: position ",
                    absl::StrJoin(decoded.unknown_positions(), ", "), "\n");
  }
  return table;
}

// The source comes back with its answer, but for tensors and pictures: their name is there instead
// of megabytes of bytes.
std::string AnswerJson(const BulkAnswer& answer) {
  DecodedSource output;
  *output.mutable_source() = answer.source.source;
  output.mutable_source()->clear_further_inputs();
  if (output.source().has_features()) {
    output.mutable_source()->mutable_features()->clear_data();
    output.set_source_name(answer.source.name);
  }
  if (output.source().has_picture()) {
    output.mutable_source()->clear_picture();
    output.set_source_name(answer.source.name);
  }
  *output.mutable_result() = answer.result;
  output.set_model(answer.response.model());
  output.set_version(answer.response.version());
  output.set_numerics(answer.response.numerics());
  return ToJson(output, /*pretty=*/false);
}

std::string ToJson(const Message& message, bool pretty) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = pretty;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  KeepDetailTypes();
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(message, &json, options).ok()) {
    const std::unique_ptr<Message> known(message.New());
    known->CopyFrom(message);
    DropUnknownDetails(*known);
    json.clear();
    std::ignore = google::protobuf::util::MessageToJsonString(*known, &json, options);
  }
  return pretty ? json : json + "\n";
}

// Frames count within the segment. Example: a segment from 1000 to 3000 ms with 50 frames has
// frames of 40 ms; tokens at frames 5 and 20, the last one 3 frames long, are heard from 1200 to
// 1920 ms.
Heard WhenHeard(const v1::RecognizedSegment& segment) {
  Heard heard{segment.begin_ms(), segment.end_ms()};
  if (segment.hypotheses_size() == 0 || segment.hypotheses(0).token_frames_size() == 0 ||
      segment.num_frames() == 0) {
    return heard;
  }
  const v1::Hypothesis& best = segment.hypotheses(0);
  const double frame_ms =
      (segment.end_ms() - segment.begin_ms()) / static_cast<double>(segment.num_frames());
  const int last = best.token_frames_size() - 1;
  const int duration = last < best.token_durations_size() ? best.token_durations(last) : 1;
  heard.begin_ms = segment.begin_ms() + frame_ms * best.token_frames(0);
  heard.end_ms = segment.begin_ms() + frame_ms * (best.token_frames(last) + std::max(duration, 1));
  return heard;
}

std::string Subtitle(audio::SubtitleForm form, int number, const v1::RecognizedSegment& segment) {
  const Heard heard = WhenHeard(segment);
  return audio::Subtitle(
      form, number, heard.begin_ms, heard.end_ms,
      segment.hypotheses_size() == 0 ? "" : Printable(HypothesisText(segment.hypotheses(0))));
}

namespace {

constexpr int64_t kLongInput = 500;  // sources
constexpr absl::Duration kRedraw = absl::Milliseconds(200);
constexpr int kBarWidth = 30;

}  // namespace

std::string Bold(absl::string_view text) {
  static const bool kBold = isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
  return kBold ? absl::StrCat("\x1b[1m", text, "\x1b[0m") : std::string(text);
}

std::string Printable(absl::string_view text) {
  std::string printable;
  unsigned char before = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    // U+0080 to U+009F steer terminals, too; in UTF-8 they are these bytes behind 0xc2.
    const bool c1 = before == 0xc2 && byte >= 0x80 && byte < 0xa0;
    before = byte;
    if (c1) {
      printable.pop_back();
      absl::StrAppendFormat(&printable, "\\xc2\\x%02x", byte);
    } else if (byte < 0x20 || byte == 0x7f) {
      absl::StrAppendFormat(&printable, "\\x%02x", byte);
    } else {
      printable += c;
    }
  }
  return printable;
}

std::string WithCommas(int64_t count) {
  const std::string digits = absl::StrCat(count);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0 && digits[i - 1] != '-') {
      text += ',';
    }
    text += digits[i];
  }
  return text;
}

Progress::Progress(int64_t total_bytes)
    : enabled_(isatty(STDERR_FILENO) == 1 && isatty(STDOUT_FILENO) == 0),
      total_bytes_(total_bytes),
      start_(absl::Now()) {}

Progress::~Progress() {
  if (last_drawn_ != absl::InfinitePast()) {
    std::cerr << "\r\x1b[K" << std::flush;
  }
}

void Progress::Update(int64_t num_sources, int64_t num_bytes) {
  if (num_sources < kLongInput || !IsDue()) {
    return;
  }
  const double rate =
      static_cast<double>(num_sources) / absl::ToDoubleSeconds(last_drawn_ - start_);
  const double share =
      total_bytes_ > 0 ? static_cast<double>(num_bytes) / static_cast<double>(total_bytes_) : -1;
  Draw(share, absl::StrCat(WithCommas(num_sources), " sources, ",
                           WithCommas(static_cast<int64_t>(rate)), "/s"));
}

void Progress::Update(double share) {
  if (IsDue()) {
    Draw(share, "");
  }
}

bool Progress::IsDue() {
  const absl::Time now = absl::Now();
  if (!enabled_ || now - last_drawn_ < kRedraw) {
    return false;
  }
  last_drawn_ = now;
  return true;
}

// A bar, unless the share is negative, and the text.
void Progress::Draw(double share, absl::string_view text) {
  std::string line = "\r\x1b[K";
  if (share >= 0) {
    share = std::min(1.0, share);
    const auto filled = static_cast<size_t>(share * kBarWidth);
    absl::StrAppendFormat(&line, "[%s%s] %3.0f %%  ", std::string(filled, '#'),
                          std::string(kBarWidth - filled, '.'), 100 * share);
  }
  std::cerr << line << text << std::flush;
}

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void StopOnInterrupt() {
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupted.store(true); };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGINT, SIGTERM}) {
    sigaction(signal, &action, nullptr);
  }
}

namespace {

namespace fs = std::filesystem;

constexpr char kHeading[] = "file\tseconds\twords\tconfidence\ttext\terror";

std::string Cell(absl::string_view text) {
  return Printable(absl::StrReplaceAll(text, {{"\t", " "}, {"\n", " "}, {"\r", " "}}));
}

}  // namespace

void RecordingResult::Add(const v1::RecognizedSegment& segment) {
  if (segment.hypotheses_size() == 0 || segment.hypotheses(0).tokens_size() == 0) {
    return;  // silence
  }
  absl::StrAppend(&text, text.empty() ? "" : " ", HypothesisText(segment.hypotheses(0)));
  for (const v1::Word& word : segment.words()) {
    ++num_words;
    confidence += word.confidence();
  }
}

absl::StatusOr<ResultTable> ResultTable::Open(const std::string& folder) {
  ResultTable table;
  table.path_ = fs::path(folder) / kName;
  std::ifstream before(table.path_);
  std::string line;
  bool is_cut = false;  // the last line, in the middle
  while (std::getline(before, line)) {
    is_cut = before.eof();
    if (const size_t tab = line.find('\t'); tab != std::string::npos && line != kHeading) {
      table.lines_[line.substr(0, tab)] = line;
    }
  }
  const bool is_new = table.lines_.empty();
  table.out_.open(table.path_, std::ios::app);
  table.out_ << (is_cut ? "\n" : "");
  if (is_new) {
    table.out_ << kHeading << "\n" << std::flush;
  }
  return table.out_ ? absl::StatusOr<ResultTable>(std::move(table))
                    : Invalid("cannot write ", table.path_.string());
}

void ResultTable::Put(const std::string& name, const RecordingResult& result) {
  const bool is_good = result.status.ok();
  const std::string mean =
      result.num_words == 0 ? "" : absl::StrFormat("%.3f", result.confidence / result.num_words);
  // Words without times have no confidence, either.
  const auto num_words =
      result.num_words > 0
          ? static_cast<size_t>(result.num_words)
          : std::vector<absl::string_view>(absl::StrSplit(result.text, ' ', absl::SkipEmpty()))
                .size();
  const std::string cell = Cell(name);
  const std::string line = absl::StrCat(
      cell, "\t", is_good ? absl::StrFormat("%.2f", result.seconds) : "", "\t",
      is_good ? absl::StrCat(num_words) : "", "\t", is_good ? mean : "", "\t",
      is_good ? Cell(result.text) : "", "\t", is_good ? "" : Cell(result.status.message()));
  lines_[cell] = line;
  out_ << line << "\n" << std::flush;
}

bool ResultTable::Finish() {
  const fs::path part = path_.string() + ".part";
  std::ofstream whole(part);
  whole << kHeading << "\n";
  for (const auto& [name, line] : lines_) {
    whole << line << "\n";
  }
  whole.close();
  std::error_code error;
  if (whole && out_) {
    fs::rename(part, path_, error);
    return !error;
  }
  fs::remove(part, error);
  return false;
}

}  // namespace beamwright::client
