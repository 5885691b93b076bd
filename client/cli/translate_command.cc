// beamwright translate: lines or a file in, their translations out.
//
// Lines: read from several files as one sequence (Lines), sent in batches of up to --batch lines or
// 256 KiB, with --outstanding calls in flight. The oldest batch is awaited and printed first, so
// that the output has the order of the input.
//
// A file that is one text (HTML, subtitles, office documents; FormatOf) is sent whole, and its
// translation, in the same format, goes to standard output (TranslateWhole).
#include <deque>
#include <filesystem>
#include <future>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/answers.h"
#include "client/cli/command.h"
#include "client/cli/flags.h"
#include "client/cli/output.pb.h"
#include "client/cli/sources.h"
#include "ops/base/file.h"
#include "ops/base/utf8.h"

namespace beamwright::client {
namespace {

// A call is sent once its lines have this many bytes.
constexpr size_t kBatchBytes = size_t{256} << 10;

struct TranslateFlags {
  std::vector<std::string> files;
  ConnectionFlags connection;
  v1::TranslateRequest request;  // without texts
  int batch = 64;
  int outstanding = 4;
  bool json = false;
};

// The lines of several files, one after the other; "-" is standard input.
class Lines {
 public:
  explicit Lines(std::vector<std::string> files) : files_(std::move(files)) {
    if (files_.empty()) {
      files_.emplace_back("-");
    }
    for (const std::string& file : files_) {
      std::error_code error;
      const auto size = std::filesystem::file_size(file, error);
      all_known_ = all_known_ && !error;
      total_bytes_ += error ? 0 : static_cast<int64_t>(size);
    }
  }

  // Opens the next file. InvalidArgument: it cannot be read.
  //
  // Bytes count over all files, for the bar of progress.
  absl::Status OpenNext() {
    flags_.file = files_[next_file_++];
    bytes_before_ += reader_ == nullptr ? 0 : reader_->bytes_read();
    auto opened = SourceReader::Open(flags_);
    if (!opened.ok()) {
      return opened.status();
    }
    reader_ = *std::move(opened);
    num_lines_ = 0;
    return absl::OkStatus();
  }

  // False at the end of the last file, and after an error.
  bool Next(std::string& line) {
    BulkSource source;
    while (!reader_->Next(source)) {
      status_ = reader_->status();
      if (!status_.ok() || next_file_ == files_.size()) {
        return false;
      }
      if (status_ = OpenNext(); !status_.ok()) {
        return false;
      }
    }
    ++num_lines_;
    if (!source.status.ok()) {
      status_ = absl::InvalidArgumentError(
          absl::StrCat(flags_.file == "-" ? "standard input" : flags_.file, ", line ", num_lines_,
                       ": ", source.status.message()));
      return false;
    }
    line = std::move(*source.source.mutable_text());
    return true;
  }

  const absl::Status& status() const { return status_; }
  bool interactive() const { return reader_->interactive(); }
  int64_t total_bytes() const { return all_known_ ? total_bytes_ : 0; }
  int64_t bytes_read() const { return bytes_before_ + reader_->bytes_read(); }

 private:
  std::vector<std::string> files_;
  size_t next_file_ = 0;
  SourceFlags flags_;  // of the file that is read
  std::unique_ptr<SourceReader> reader_;
  int64_t num_lines_ = 0;  // of it
  absl::Status status_;
  bool all_known_ = true;
  int64_t total_bytes_ = 0;
  int64_t bytes_before_ = 0;
};

struct Batch {
  v1::TranslateRequest request;
  std::future<absl::StatusOr<v1::TranslateResponse>> response;
};

void Print(const TranslateFlags& flags, Batch& batch, v1::TranslateResponse& response) {
  for (int i = 0; i < response.translations_size(); ++i) {
    v1::Translation& translation = *response.mutable_translations(i);
    if (flags.json) {
      TranslatedLine line;
      line.set_source(std::move(*batch.request.mutable_texts(i)));
      line.set_source_language(translation.source_language().empty()
                                   ? response.source_language()
                                   : translation.source_language());
      translation.clear_source_language();
      *line.mutable_translation() = std::move(translation);
      line.set_target_language(response.target_language());
      std::cout << ToJson(line, /*pretty=*/false);
      continue;
    }
    std::cout << translation.text();
    for (const std::string& alternative : translation.alternatives()) {
      std::cout << "\t" << alternative;
    }
    std::cout << "\n";
  }
  std::cout.flush();
}

// Unspecified: a file of lines.
v1::TextFormat FormatOf(const std::string& file) {
  constexpr std::pair<const char*, v1::TextFormat> kFormats[] = {
      {".html", v1::TEXT_FORMAT_HTML}, {".htm", v1::TEXT_FORMAT_HTML},
      {".xml", v1::TEXT_FORMAT_XML},   {".srt", v1::TEXT_FORMAT_SRT},
      {".vtt", v1::TEXT_FORMAT_VTT},   {".po", v1::TEXT_FORMAT_PO},
      {".docx", v1::TEXT_FORMAT_DOCX}, {".odt", v1::TEXT_FORMAT_ODT}};
  for (const auto& [ending, format] : kFormats) {
    if (absl::EndsWithIgnoreCase(file, ending)) {
      return format;
    }
  }
  return v1::TEXT_FORMAT_UNSPECIFIED;
}

// A file that is one text or document: what becomes of it goes to standard output as it is.
//
// Office documents are archives and go as bytes; all else is text, whose UTF-8 is checked here,
// since a message of protobuf could not hold other bytes. The stream of the call says which share
// is translated, and at its end has the translation.
int TranslateWhole(const CLI::App& command, const TranslateFlags& flags, Client& client) {
  v1::TranslateRequest request = flags.request;
  request.set_format(FormatOf(flags.files[0]));
  absl::StatusOr<std::string> content = ReadFile(flags.files[0]);
  if (!content.ok()) {
    return UsageError(command, content.status().message());
  }
  if (request.format() == v1::TEXT_FORMAT_DOCX || request.format() == v1::TEXT_FORMAT_ODT) {
    request.set_document(*std::move(content));
  } else if (const absl::Status status = CheckUtf8(*content); !status.ok()) {
    return Failure(command, absl::StrCat(flags.files[0], ": ", status.message()));
  } else {
    request.add_texts(*std::move(content));
  }
  std::string translated;
  absl::Status status;
  {
    Progress progress(0);
    status = client.StreamTranslate(
        request, flags.connection.Deadline(), [&](const v1::TranslateResponse& message) {
          progress.Update(message.done());
          translated +=
              message.translations().empty() ? message.document() : message.translations(0).text();
          return true;
        });
  }
  if (!status.ok()) {
    return Failure(command, Explain(status, flags.connection));
  }
  std::cout << translated << std::flush;
  return kExitOk;
}

// Each turn of the loop either starts a call, while there are lines and calls may be started, or
// awaits the oldest call and prints it. A call that fails ends the command: lines behind it would
// come out at wrong places.
int Translate(const CLI::App& command, const TranslateFlags& flags) {
  const bool is_whole =
      absl::c_any_of(flags.files, [](const std::string& file) { return FormatOf(file) != 0; });
  if (is_whole && (flags.files.size() > 1 || flags.json || flags.request.alternatives() > 0)) {
    return UsageError(command,
                      "a file of markup, of subtitles or of an office is translated alone, and "
                      "without --json and --alternatives");
  }
  auto client = Client::Connect(flags.connection.client);
  if (!client.ok()) {
    return UsageError(command, client.status().message());
  }
  if (is_whole) {
    return TranslateWhole(command, flags, **client);
  }
  Lines lines(flags.files);
  if (const absl::Status opened = lines.OpenNext(); !opened.ok()) {
    return UsageError(command, opened.message());
  }
  const bool interactive = lines.interactive();
  if (interactive) {
    std::cerr << "Type lines; Ctrl-D ends.\n";
  }
  const int most_texts = interactive ? 1 : flags.batch;
  const size_t most_batches = interactive ? 1 : static_cast<size_t>(flags.outstanding);
  std::deque<Batch> batches;  // in the order of their lines; each waits for its call when it ends
  Progress progress(lines.total_bytes());
  int64_t num_lines = 0;
  bool at_end = false;
  while (!at_end || !batches.empty()) {
    if (!at_end && batches.size() < most_batches) {
      Batch& batch = batches.emplace_back();
      batch.request = flags.request;
      size_t bytes = 0;
      std::string line;
      while (batch.request.texts_size() < most_texts && bytes < kBatchBytes) {
        if (!lines.Next(line)) {
          at_end = true;
          break;
        }
        bytes += line.size();
        batch.request.add_texts(std::move(line));
      }
      if (batch.request.texts().empty()) {
        batches.pop_back();
        continue;
      }
      batch.response = std::async(std::launch::async, [&] {
        return (*client)->Translate(batch.request, flags.connection.Deadline());
      });
      continue;
    }
    absl::StatusOr<v1::TranslateResponse> response = batches.front().response.get();
    if (!response.ok()) {
      return Failure(command, Explain(response.status(), flags.connection));
    }
    num_lines += response->translations_size();
    Print(flags, batches.front(), *response);
    progress.Update(num_lines, lines.bytes_read());
    batches.pop_front();
  }
  if (!lines.status().ok()) {
    return Failure(command, lines.status().message());
  }
  return kExitOk;
}

}  // namespace

Command AddTranslateCommand(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("translate", "Translate lines of text, or a file.");
  auto flags = std::make_shared<TranslateFlags>();
  app->add_option(
         "FILE", flags->files,
         "Files of lines, or one .html, .xml, .srt, .vtt, .po, .docx or .odt; - is standard "
         "input.")
      ->group("Input");
  app->add_option("--source", *flags->request.mutable_source_language(),
                  "Language of the text, as a BCP 47 tag, or auto.")
      ->type_name("LANGUAGE")
      ->required()
      ->group("Input");
  app->add_option("--target", *flags->request.mutable_target_language(),
                  "Language to translate to.")
      ->type_name("LANGUAGE")
      ->required()
      ->group("Input");
  AddConnectionFlags(*app, flags->connection);
  AddIntFlag(*app, {"--batch", kConnectionGroup, "Lines sent in one call."}, 1, 4096, flags->batch);
  AddIntFlag(*app, {"--outstanding", kConnectionGroup, "Calls in flight at the same time."}, 1, 64,
             flags->outstanding);
  app->add_option_function<int>(
         "--alternatives", [flags](int count) { flags->request.set_alternatives(count); },
         "Further translations of each line, after tabs: 0 to 16.")
      ->check(CLI::Range(0, 16))
      ->type_name("N")
      ->group("Output");
  app->add_flag("--json", flags->json, "Print one JSON object a line.")->group("Output");
  app->footer(
      "Without FILE, lines of standard input are translated. 'curl HTTP_ADDRESS/languages' lists\n"
      "the languages. Each line is translated alone and stays one line.\n"
      "Examples:\n"
      "  echo 'Good morning!' | beamwright translate --source en --target fr\n"
      "  beamwright translate --source de --target en letter.txt > letter.en.txt\n"
      "  beamwright translate --source de --target en letter.docx > letter.en.docx\n"
      "Exit code: 0 all translated, 1 a line or the server failed, 2 wrong command line.");
  return {app, [app, flags] { return Translate(*app, *flags); }};
}

}  // namespace beamwright::client
