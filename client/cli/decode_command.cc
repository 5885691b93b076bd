// beamwright decode: sources in, n-best lists out.
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/bulk.h"
#include "client/cli/answers.h"
#include "client/cli/cli.h"
#include "client/cli/command.h"
#include "client/cli/connection.h"
#include "client/cli/features.h"
#include "client/cli/flags.h"
#include "client/cli/model_flags.h"
#include "client/cli/sources.h"
#include "client/cli/stream_decode.h"
#include "client/cli/terminal.h"
#include "ops/base/status.h"

namespace beamwright::client {
namespace {

struct DecodeFlags {
  SourceFlags sources;
  ConnectionFlags connection;
  StreamFlags stream;
  v1::DecodeRequest request;
  int batch = 32;
  int outstanding = 4;
  bool json = false;
};

// Prints answers as they come and counts those that failed.
class Printer {
 public:
  Printer(const CLI::App& command, const DecodeFlags& flags) : command_(command), flags_(flags) {}

  void Print(const BulkAnswer& answer) {
    if (absl::Status status = ResultStatus(answer.result); !status.ok()) {
      ++num_failed_;
      std::cout.flush();  // keeps the order where both go to the same place
      Failure(command_, absl::StrCat("source ", answer.index + 1, " \"", SourceText(answer.source),
                                     "\": ", CodeAndMessage(status)));
    }
    if (flags_.json) {
      std::cout << AnswerJson(answer) << std::flush;
    } else if (answer.result.has_decoded()) {
      std::cout << (num_printed_++ > 0 ? "\n" : "")
                << AnswerTable(SourceText(answer.source), answer.result.decoded()) << std::flush;
    }
  }

  int64_t num_failed() const { return num_failed_; }

 private:
  const CLI::App& command_;
  const DecodeFlags& flags_;
  int64_t num_failed_ = 0;
  int64_t num_printed_ = 0;
};

// What answers go on from, where a model has no encoder.
absl::Status SetPrompt(const SourceFlags& sources, v1::DecodeOptions& options) {
  if (!sources.prompt.has_value() || sources.prompt->empty()) {
    return absl::OkStatus();
  }
  if (options.has_target_prefix()) {
    return Invalid(
        "--prompt: there is a --target-prefix as well; both are what answers begin with");
  }
  return SetTextOrIds(*sources.prompt, sources.ids, *options.mutable_target_prefix());
}

int Decode(const CLI::App& command, DecodeFlags& flags) {
  if (const absl::Status set = SetPrompt(flags.sources, *flags.request.mutable_options());
      !set.ok()) {
    return UsageError(command, set.message());
  }
  auto client = Client::Connect(flags.connection.client);
  if (!client.ok()) {
    return UsageError(command, client.status().message());
  }
  auto features = FeatureFiles::Open(flags.sources.features, **client, flags.request.model(),
                                     flags.request.version(), flags.connection.Deadline());
  if (absl::IsInvalidArgument(features.status())) {
    return UsageError(command, features.status().message());
  }
  if (!features.ok()) {
    return Failure(command, Explain(features.status(), flags.connection));
  }
  auto reader = SourceReader::Open(flags.sources, *std::move(features));
  if (!reader.ok()) {
    return UsageError(command, reader.status().message());
  }
  if (flags.stream.provisional && !flags.stream.stream) {
    return UsageError(command, "--provisional: needs --stream");
  }
  if (flags.stream.stream) {
    return StreamDecode(command, **client, **reader, flags.request, flags.stream, flags.connection,
                        flags.json);
  }
  BulkOptions bulk;
  bulk.request = flags.request;
  bulk.batch = (*reader)->interactive() ? 1 : flags.batch;
  bulk.outstanding = (*reader)->interactive() ? 1 : flags.outstanding;
  bulk.timeout = flags.connection.timeout;
  if ((*reader)->interactive()) {
    std::cerr << "Type sources, one a line; Ctrl-D ends.\n";
  }
  Printer printer(command, flags);
  absl::Status status;
  {
    Progress progress((*reader)->total_bytes());
    status = DecodeBulk(
        **client, bulk, [&](BulkSource& source) { return (*reader)->Next(source); },
        [&](const BulkAnswer& answer) {
          printer.Print(answer);
          progress.Update(answer.index + 1, (*reader)->bytes_read());
        });
  }
  if (!status.ok()) {
    return Failure(command, Explain(status, flags.connection));
  }
  if (!(*reader)->status().ok()) {
    return Failure(command, (*reader)->status().message());
  }
  if (!std::cout) {
    return Failure(command, "cannot write to standard output");
  }
  return printer.num_failed() == 0 ? kExitOk : kExitFailed;
}

}  // namespace

Command AddDecodeCommand(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("decode", "Decode sources and print their n-best lists.");
  auto flags = std::make_shared<DecodeFlags>();
  AddSourceFlags(*app, flags->sources);
  app->add_option("--prompt", flags->sources.prompt,
                  "Go on from this text (with --ids: from these ids), which may be empty, instead "
                  "of decoding a source: for models without an encoder.")
      ->type_name("TEXT")
      ->group("Input");
  AddModelFlags(*app, flags->request);
  AddConnectionFlags(*app, flags->connection);
  AddIntFlag(*app, {"--batch", kConnectionGroup, "Sources sent in one call."}, 1, 4096,
             flags->batch);
  AddIntFlag(*app, {"--outstanding", kConnectionGroup, "Calls in flight at the same time."}, 1, 256,
             flags->outstanding);
  AddMessageFlags(*app, "Other options", *flags->request.mutable_options());
  app->add_flag("--json", flags->json, "Print one JSON object a source, each on a line.")
      ->group("Output");
  AddStreamFlags(*app, flags->stream);
  app->footer(
      "Without SOURCE and --file, lines of standard input are decoded. Options that are not given\n"
      "take the model's defaults, then those shown here; docs/decoding.md defines each.\n"
      "Examples:\n"
      "  beamwright decode hello world --n-best 3\n"
      "  beamwright decode --file words.txt --json > answers.jsonl\n"
      "  beamwright decode --features one.npy two.npy --model speech\n"
      "  beamwright decode --picture line1.png line2.jpg --model ocr\n"
      "  beamwright decode --prompt 'once upon' --model stories\n"
      "  beamwright decode --beam-size 8 --length-penalty pow:0.6 hello\n"
      "Exit code: 0 all decoded, 1 a source or the server failed, 2 wrong command line.");
  return {app, [app, flags] { return Decode(*app, *flags); }};
}

}  // namespace beamwright::client
