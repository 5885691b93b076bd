#include "client/cli/given_targets.h"

#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/model_flags.h"
#include "client/cli/sources.h"
#include "ops/base/status.h"

namespace beamwright::client {
namespace {

constexpr char kInputGroup[] = "Input";

}  // namespace

void AddGivenFlags(CLI::App& app, GivenFlags& flags) {
  app.add_option("SOURCE TARGET", flags.words, "A source, and what it is to be compared with.")
      ->group(kInputGroup);
  app.add_option("--file", flags.file,
                 "Read lines of SOURCE, tab, TARGET from this file; - is standard input.")
      ->type_name("PATH")
      ->group(kInputGroup);
  app.add_flag("--ids", flags.ids,
               "Sources and targets are token ids, separated by spaces or commas.")
      ->group(kInputGroup);
  AddModelFlag(app, flags.model);
  AddVersionFlag(app, flags.version);
}

absl::StatusOr<std::unique_ptr<GivenReader>> GivenReader::Open(const GivenFlags& flags) {
  std::unique_ptr<GivenReader> reader(new GivenReader(flags));
  if (!flags.words.empty() && !flags.file.empty()) {
    return Invalid("targets are given both as arguments and by --file; use one of them");
  }
  if (!flags.words.empty()) {
    return reader;
  }
  if (flags.file.empty() || flags.file == "-") {
    reader->stream_ = &std::cin;
    return reader;
  }
  reader->file_.open(flags.file);
  if (!reader->file_) {
    return Invalid("--file: cannot read ", flags.file);
  }
  reader->stream_ = &reader->file_;
  return reader;
}

absl::StatusOr<bool> GivenReader::Next(v1::ScoreSource& given) {
  std::vector<std::string> pieces;
  if (stream_ == nullptr) {
    if (num_read_ > 0) {
      return false;
    }
    pieces = flags_.words;
  } else {
    std::string line;
    if (!std::getline(*stream_, line)) {
      if (stream_->bad()) {
        return absl::DataLossError("reading broke off before the end");
      }
      return false;
    }
    if (!line.empty() && line.back() == '\r') {
      line.pop_back();
    }
    pieces = absl::StrSplit(line, '\t');
  }
  ++num_read_;
  const std::string where = stream_ == nullptr ? "the arguments" : absl::StrCat("line ", num_read_);
  if (pieces.size() < 2) {
    return Invalid(where, stream_ == nullptr ? " have" : " has",
                   " a source but no target behind it");
  }
  given.Clear();
  BW_RETURN_IF_ERROR(Annotate(SetTextOrIds(pieces[0], flags_.ids, *given.mutable_source()), where));
  for (size_t i = 1; i < pieces.size(); ++i) {
    BW_RETURN_IF_ERROR(Annotate(SetTextOrIds(pieces[i], flags_.ids, *given.add_targets()), where));
  }
  return true;
}

}  // namespace beamwright::client
