#include "client/cli/result_table.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/cli/answers.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"

namespace beamwright::client {
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
