// Reads the sources of a command: arguments, lines of a file or of standard input, features,
// pictures, or nothing but a prompt for models without an encoder.
//
// Open checks that the flags name one kind of source, and opens the file. Next gives source after
// source until the end; a line at a time, so that files of any length and interactive input work. A
// source that cannot be read (a line that is not UTF-8, an id that is no number, a broken file) has
// its error in BulkSource::status and does not end the others; only arguments are all checked
// before the first call.
#include "client/cli/sources.h"

#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <iterator>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/answers.h"
#include "ops/base/file.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"

namespace beamwright::client {
namespace {

constexpr char kInputGroup[] = "Input";

// The text of a source that cannot be sent is kept for messages, escaped if it is not UTF-8.
BulkSource MakeSource(const std::string& text, bool ids) {
  BulkSource made;
  made.status = CheckUtf8(text);
  if (!made.status.ok()) {
    made.source.set_text(absl::CHexEscape(text));  // for messages; a proto's string must be UTF-8
    return made;
  }
  if (!ids) {
    made.source.set_text(text);
    return made;
  }
  if (auto parsed = ParseIds(text); parsed.ok()) {
    *made.source.mutable_ids() = *std::move(parsed);
  } else {
    made.source.set_text(text);
    made.status = parsed.status();
  }
  return made;
}

}  // namespace

void AddSourceFlags(CLI::App& app, SourceFlags& flags) {
  app.add_option("SOURCE", flags.words, "Sources to decode, one an argument.")->group(kInputGroup);
  app.add_option("--file", flags.file,
                 "Read sources from this file, one a line; - is standard input.")
      ->type_name("PATH")
      ->group(kInputGroup);
  app.add_flag("--ids", flags.ids,
               "Sources are token ids, separated by spaces or commas, instead of text.")
      ->group(kInputGroup);
  AddFeatureFlags(app, flags.features);
  app.add_option("--picture", flags.pictures,
                 "Sources are pictures, a PNG or JPEG file each: of models that read them.")
      ->type_name("FILE...")
      ->check(CLI::ExistingFile)
      ->group(kInputGroup);
}

absl::StatusOr<v1::TokenIds> ParseIds(absl::string_view text) {
  v1::TokenIds ids;
  for (absl::string_view piece : absl::StrSplit(text, absl::ByAnyChar(" ,\t"), absl::SkipEmpty())) {
    int32_t id = 0;
    if (!absl::SimpleAtoi(piece, &id) || id < 0) {
      return Invalid("\"", Printable(piece), "\" is not a token id (a whole number from 0)");
    }
    ids.add_ids(id);
  }
  return ids;
}

// How a source is named in messages: its text or ids, of anything large its type and size.
std::string SourceText(const v1::Source& source) {
  if (source.has_features()) {
    return absl::StrCat(source.features().dtype(), " [",
                        absl::StrJoin(source.features().shape(), ", "), "]");
  }
  if (source.has_state()) {
    return absl::StrCat("state of ", source.state().size(), " bytes");
  }
  if (source.has_picture()) {
    return absl::StrCat("picture of ", source.picture().size(), " bytes");
  }
  return source.has_ids() ? absl::StrJoin(source.ids().ids(), " ") : Printable(source.text());
}

std::string SourceText(const BulkSource& source) {
  return source.name.empty() ? SourceText(source.source) : Printable(source.name);
}

// Kinds of sources are tried in this order: a prompt alone, files of features or pictures,
// arguments, a file or standard input. Two kinds at once are an error that names both flags.
absl::StatusOr<std::unique_ptr<SourceReader>> SourceReader::Open(
    const SourceFlags& flags, std::optional<FeatureFiles> features) {
  std::unique_ptr<SourceReader> reader(new SourceReader(flags));
  reader->features_ = std::move(features);
  if (flags.prompt.has_value()) {
    const bool has_sources = !flags.words.empty() || !flags.file.empty() ||
                             !flags.features.files.empty() || !flags.pictures.empty();
    return has_sources ? absl::StatusOr<std::unique_ptr<SourceReader>>(Invalid(
                             "--prompt: there are sources as well; a model without an encoder "
                             "reads none"))
                       : std::move(reader);
  }
  const bool has_features = !flags.features.files.empty();
  if (has_features || !flags.pictures.empty()) {
    if (!flags.words.empty() || !flags.file.empty() || flags.ids ||
        (has_features && !flags.pictures.empty())) {
      return Invalid("sources are given as ", has_features ? "--features" : "--picture",
                     " and also ",
                     flags.ids              ? "with --ids"
                     : !flags.words.empty() ? "as arguments"
                     : !flags.file.empty()  ? "by --file"
                                            : "as --picture",
                     "; use one of them");
    }
    return reader;
  }
  if (!flags.words.empty()) {
    if (!flags.file.empty()) {
      return Invalid("sources are given both as arguments and by --file; use one of them");
    }
    for (const std::string& word : flags.words) {
      BW_RETURN_IF_ERROR(MakeSource(word, flags.ids).status);
    }
    return reader;
  }
  if (flags.file.empty() || flags.file == "-") {
    reader->stream_ = &std::cin;
    reader->interactive_ = isatty(STDIN_FILENO) == 1;
    return reader;
  }
  std::error_code error;
  if (std::filesystem::is_directory(flags.file, error)) {
    return Invalid("--file: ", flags.file, " is a folder");
  }
  reader->file_.open(flags.file);
  if (!reader->file_) {
    return Invalid("--file: cannot read ", flags.file);
  }
  reader->stream_ = &reader->file_;
  if (std::filesystem::is_regular_file(flags.file, error)) {
    reader->total_bytes_ = static_cast<int64_t>(std::filesystem::file_size(flags.file, error));
  }
  return reader;
}

// Line ends of Windows are accepted. Bytes are counted with the line end, for the bar of progress.
bool SourceReader::NextLine(std::string& line) {
  if (stream_ == nullptr) {
    if (next_word_ == flags_.words.size()) {
      return false;
    }
    line = flags_.words[next_word_++];
    return true;
  }
  if (!std::getline(*stream_, line)) {
    return false;
  }
  bytes_read_ += static_cast<int64_t>(line.size()) + 1;
  if (!line.empty() && line.back() == '\r') {
    line.pop_back();
  }
  return true;
}

// A file has several arrays, each a source, so it is read when the arrays of the one before are
// used up. A file that can't be read is one source with an error.
bool SourceReader::NextFeatures(BulkSource& source) {
  source = BulkSource();
  while (arrays_.empty()) {
    if (next_file_ == flags_.features.files.size()) {
      return false;
    }
    const std::string& file = flags_.features.files[next_file_++];
    absl::StatusOr<std::vector<NamedFeatures>> arrays = features_->Read(file);
    if (!arrays.ok()) {
      source.name = file;
      source.status = arrays.status();
      return true;
    }
    arrays_.assign(std::make_move_iterator(arrays->begin()),
                   std::make_move_iterator(arrays->end()));
  }
  source.name = std::move(arrays_.front().name);
  *source.source.mutable_features() = std::move(arrays_.front().tensor);
  arrays_.pop_front();
  return true;
}

bool SourceReader::NextPicture(BulkSource& source) {
  source = BulkSource();
  if (next_file_ == flags_.pictures.size()) {
    return false;
  }
  source.name = flags_.pictures[next_file_++];
  if (absl::StatusOr<std::string> bytes = ReadFile(source.name); bytes.ok()) {
    source.source.set_picture(*std::move(bytes));
  } else {
    source.status = bytes.status();
  }
  return true;
}

// The next source of the kind that Open found. A prompt is one source: empty, or the state that an
// earlier call saved.
bool SourceReader::NextLineOrFile(BulkSource& source) {
  if (flags_.prompt.has_value()) {
    source = BulkSource();
    source.name = *flags_.prompt;
    if (!flags_.state_file.empty() && num_sources_ == 0) {
      if (absl::StatusOr<std::string> bytes = ReadFile(flags_.state_file); bytes.ok()) {
        source.source.set_state(*std::move(bytes));
      } else {
        source.status = bytes.status();
      }
    }
    return num_sources_ == 0;
  }
  if (!flags_.features.files.empty()) {
    return NextFeatures(source);
  }
  if (!flags_.pictures.empty()) {
    return NextPicture(source);
  }
  std::string line;
  if (!NextLine(line)) {
    return false;
  }
  source = MakeSource(line, flags_.ids);
  return true;
}

bool SourceReader::Next(BulkSource& source) {
  if (!NextLineOrFile(source)) {
    return false;
  }
  if (features_.has_value() && source.status.ok()) {
    source.status = features_->AddFurtherInputs(num_sources_, source.source);
  }
  ++num_sources_;
  return true;
}

absl::Status SourceReader::status() const {
  if (stream_ != nullptr && stream_->bad()) {
    return absl::DataLossError("reading the sources broke off before their end");
  }
  return absl::OkStatus();
}

}  // namespace beamwright::client
